"""Opening the folder of a run: a new run begins there, or the run that it holds is resumed.

May import: run, store, service.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from vmfa_dask.run.held_out import all_rows
from vmfa_dask.run.plan import Plan, make_plan
from vmfa_dask.run.projection import kept_bytes
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.run.validation import Validation
from vmfa_dask.service.checkpoints import KeptRun, state_from
from vmfa_dask.service.fingerprint import recognize
from vmfa_dask.service.inputs import BegunStart, describe_rows, describe_start
from vmfa_dask.service.options import Options
from vmfa_dask.service.same_run import check_same_start, same_plan, settings_of_run, stored_plan
from vmfa_dask.store.runs import RunFolder

logger = logging.getLogger(__name__)


@contextmanager
def kept_run(
    options: Options,
    settings: Settings,
    rows: RowSource,
    start: Start | BegunStart | None,
    validation: Validation | None = None,
) -> Iterator[tuple[KeptRun | None, Plan]]:
    """Hold the folder of a run for the enclosed lines.

    A run is resumed with the plan that it was begun with, whatever plan this version of the package would make. A run
    that ends before it has a state leaves the folder to any other run.

    Parameters
    ----------
    options : Options
        Of the fit; its `run` names the folder.
    settings : Settings
        Of the run.
    rows : RowSource
        Of the run.
    start : Start, BegunStart or None
        What training begins with in place of seeds.
    validation : Validation, optional
        Rows that are held out.

    Yields
    ------
    kept : KeptRun or None
        None without a folder.
    plan : Plan
        Of the run.

    Raises
    ------
    ValueError
        When the folder holds another run, or a damaged one, or the rows have changed.
    FileExistsError, FileNotFoundError, RuntimeError, OSError
        As `store.runs.RunFolder`.
    """
    plan = make_plan(rows, settings, options.n_groups)
    if options.run is None:
        yield None, plan
        return
    folder = RunFolder(options.run)
    try:
        folder.check_space(kept_bytes(rows, settings))
        stored = folder.begun() or {}
        if "plan" in stored:
            plan = same_plan(folder.path, stored_plan(folder.path, stored), plan, options.n_groups)
        begin = describe_start(start)
        check_same_start(folder.path, stored.get("start", begin).get("digest"), begin["digest"])
        held_out = validation.identity() if validation is not None else {}
        if stored and held_out and "validation" not in stored:
            raise ValueError(
                f"{folder.path} holds another run: it was begun without validation; leave validation out to go on "
                "with it, or use another folder"
            )
        identity = {
            "validation": held_out,
            "settings": settings_of_run(settings, stored.get("settings", {})),
            "data": describe_rows(rows),
            "plan": asdict(plan),
            "start": begin,
        }
        source = all_rows(rows)
        cuts = plan if source is rows else replace(plan, groups=((0, source.n_rows),))

        def recognize_all(known: dict[str, Any] | None) -> dict[str, Any]:
            return recognize(folder.path, source, cuts, known)

        begun = folder.begin(identity, options.resume, recognize_all)
        if begun is not None:
            logger.info("%s: going on after %d passes", folder.path, len(state_from(folder.path, begun.values).records))
        try:
            yield KeptRun(folder, begun, settings, plan, options.checkpoint_share), plan
        except BaseException as error:
            try:
                folder.give_up()
            except OSError as failure:  # the cause of the run's end matters more
                error.add_note(f"{folder.path}: what was begun there could not be removed: {failure}")
            raise
    finally:
        folder.release()
