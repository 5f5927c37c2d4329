"""H05: a run's own files carry checksums over all that they say, down to the stored versions that a state names."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kept import Change, as_format_1, change, seal
from tests.objects import environment_of, make_bucket, object_server
from tests.samples import draw, make_mixture, make_start, parameters
from vmfa_dask import IterationRecord, fit_local
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import FORMAT_VERSION
from vmfa_dask.store.run_inspection import read_settings, read_state

ROWS = draw(make_mixture(4, 6, 2), 120, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 4, "n_factors": 2, "n_groups": 2, "max_warmup_iter": 2, "tol": 0.0, "warmup_tol": 0.0,
}  # fmt: skip


class Interrupted(Exception):
    """Ends a run between two passes."""


def stop_after(iteration: int) -> Callable[[IterationRecord], None]:
    def progress(record: IterationRecord) -> None:
        if record.iteration == iteration:
            raise Interrupted

    return progress


def begun(path: Path, last: int = 3, **options: Any) -> Path:
    """A run that was interrupted."""
    with pytest.raises(Interrupted):
        fit_local(ROWS, **{**OPTIONS, **options}, max_iter=5, run=str(path), progress=stop_after(last))
    return path


def go_on(run: Path, **options: Any) -> Any:
    return fit_local(ROWS, **{**OPTIONS, **options}, max_iter=5, run=str(run), resume="require")


def outcome(fit: Any) -> tuple[bytes, list[float]]:
    return parameters(fit.model), [record.free_energy for record in fit.history]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begun(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "run")


EDITS: dict[str, tuple[str, Change]] = {
    "free energy": ("state.json", lambda v: v["records"][-1].update(free_energy=0.0)),
    "a record of long ago": ("state.json", lambda v: v["records"][0].update(n_joints=7)),
    "a record less": ("state.json", lambda v: v["records"].pop()),
    "phase": ("state.json", lambda v: v.update(phase="final")),
    "converged": ("state.json", lambda v: v.update(converged=True)),
    "passes": ("state.json", lambda v: v.update(passes=0)),
    "distinct seeds": ("state.json", lambda v: v.update(n_distinct_seeds=2)),
    "another version": ("state.json", lambda v: v.update(better=None)),
    "digest of a block": ("state.json", lambda v: v["versions"].update({next(iter(v["versions"])): "0" * 64})),
    "no digests": ("state.json", lambda v: v.pop("versions")),
    "no checksum": ("state.json", lambda v: v.pop("checksum")),
    "a checksum of another type": ("state.json", lambda v: v.update(checksum=7)),
    "true for 1": ("state.json", lambda v: v.update(fell=0)),
    "settings": ("run.json", lambda v: v["settings"].update(reg_covar=1.0)),
    "plan": ("run.json", lambda v: v["plan"].update(tile_rows=3)),
    "start": ("run.json", lambda v: v["start"].update(digest="0" * 16)),
    "a section less": ("run.json", lambda v: v.pop("plan")),
    "format of before": ("run.json", lambda v: v["format"].update(version=1)),
    "rows": ("data.json", lambda v: v.update(checksums=None)),
    "row checksum": ("data.json", lambda v: v["checksums"].reverse()),
}


@pytest.mark.parametrize(("name", "edit"), EDITS.values(), ids=list(EDITS))
def test_edited_files_are_refused_by_name(run: Path, name: str, edit: Change) -> None:
    change(run / name, edit)
    message = re.escape(f"{run}/{name}: its checksum does not match: edited or damaged")
    with pytest.raises(ValueError, match=message):
        go_on(run)
    if name == "state.json":
        with pytest.raises(ValueError, match=message):
            read_state(str(run))
    if name == "run.json":
        with pytest.raises(ValueError, match=message):
            read_settings(str(run))


def test_another_layout_of_the_same_values_is_the_same(run: Path, tmp_path: Path) -> None:
    expected = outcome(go_on(shutil.copytree(run, tmp_path / "copy")))
    for path in run.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True, ensure_ascii=False))
    assert outcome(go_on(run)) == expected


def swap_parameters(run: Path, other: Path) -> str:
    return swap(run, other, "parameters")


def swap_graph(run: Path, other: Path) -> str:
    return swap(run, other, "graph")


def swap_posterior(run: Path, other: Path) -> str:
    return swap(run, other, "posterior")


def swap_start(run: Path, other: Path) -> str:
    return swap(run, other, "start")


def swap(run: Path, other: Path, kind: str) -> str:
    """The newest version of another run or pass, under the number that the state names; each file of it is whole."""
    mine, theirs = (sorted((folder / "versions" / kind).glob("0*"))[-1] for folder in (run, other))
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    return rf"{re.escape(str(run))}: {kind} of version \d+, [\w-]+ is damaged, or of another run or pass"


def swap_state(run: Path, other: Path) -> str:
    """State and versions of another run, beside this run's identity."""
    shutil.copy(other / "state.json", run / "state.json")
    shutil.rmtree(run / "versions")
    shutil.copytree(other / "versions", run / "versions")
    return re.escape(f"{run}/state.json: belongs to another run than run.json beside it")


@pytest.mark.parametrize("swapped", [swap_parameters, swap_graph, swap_posterior, swap_start, swap_state])
def test_what_is_of_another_run_is_refused(run: Path, tmp_path: Path, swapped: Callable[[Path, Path], str]) -> None:
    scale = {"standardize": False} if swapped is swap_start else {}  # the surveys of equal rows are equal
    other = begun(tmp_path / "other", random_state=5, reg_covar=1e-4, **scale)
    with pytest.raises(ValueError, match=swapped(run, other)):
        go_on(run)


@pytest.mark.parametrize("kind", ["parameters", "posterior"])  # graphs of four components settle
def test_what_is_of_another_pass_is_refused(run: Path, tmp_path: Path, kind: str) -> None:
    later = begun(tmp_path / "later", last=5)
    with pytest.raises(ValueError, match=swap(run, later, kind)):
        go_on(run)


@pytest.mark.parametrize("options", [{}, {"noise": "shared"}, {"search": "exhaustive"}, {"empty_components": "split"},
                                     {"search_every": 2}, {"standardize": False}], ids=str)  # fmt: skip
def test_runs_of_all_kinds_go_on_with_checksums(tmp_path: Path, options: dict[str, Any]) -> None:
    straight = fit_local(ROWS, **{**OPTIONS, **options}, max_iter=5)
    assert outcome(go_on(begun(tmp_path / "run", **options), **options)) == outcome(straight)


def test_what_a_killed_driver_wrote_before_the_state_that_names_it_is_no_damage(run: Path, tmp_path: Path) -> None:
    expected = outcome(go_on(shutil.copytree(run, tmp_path / "ended")))
    for version in (tmp_path / "ended" / "versions").glob("*/0*"):
        target = run / "versions" / version.relative_to(tmp_path / "ended" / "versions")
        if not target.exists():
            shutil.copytree(version, target)
    assert outcome(go_on(run)) == expected


def test_a_given_start_is_kept_with_checksums(tmp_path: Path) -> None:
    start, run = make_start(make_mixture(4, 6, 2), len(ROWS), 3, 3), str(tmp_path / "run")
    fit = fit_local(ROWS, **{**OPTIONS, "neighborhood": 3}, max_iter=3, run=run, start=start)
    assert len(json.loads((tmp_path / "run" / "state.json").read_text())["versions"]) == 6
    again = fit_local(ROWS, **{**OPTIONS, "neighborhood": 3}, max_iter=3, run=run, start=start)
    assert outcome(again) == outcome(fit)


def test_a_run_of_format_1_goes_on_and_becomes_one_of_the_newest(run: Path, tmp_path: Path) -> None:
    expected = outcome(go_on(shutil.copytree(run, tmp_path / "copy")))
    as_format_1(run)
    before = {path.name: path.read_bytes() for path in run.glob("*.json")}
    assert read_state(str(run)) is not None
    with pytest.raises(ValueError, match="another run"):
        go_on(run, random_state=7)
    assert {path.name: path.read_bytes() for path in run.glob("*.json")} == before  # nothing was kept of it
    assert outcome(go_on(run)) == expected
    values = {path.name: json.loads(path.read_text()) for path in run.glob("*.json")}
    assert values["run.json"]["format"]["version"] == FORMAT_VERSION > 1
    assert all("checksum" in value for value in values.values())
    change(run / "state.json", lambda known: known.update(converged=True))
    with pytest.raises(ValueError, match="checksum does not match"):
        go_on(run)


def test_a_run_that_was_on_its_way_from_format_1_goes_on(run: Path, tmp_path: Path) -> None:
    """Killed between its first state with checksums and its identity."""
    expected = outcome(go_on(shutil.copytree(run, tmp_path / "copy")))
    change(run / "run.json", lambda known: [known.pop("checksum"), known["format"].update(version=1)])
    assert outcome(go_on(run)) == expected


WRONG: dict[str, tuple[str, Change, str]] = {
    "phase": ("state.json", lambda v: v.update(phase="dancing"), "phase is 'dancing', expected str"),
    "iteration": ("state.json", lambda v: v.update(iteration=-1), "iteration is -1, expected int"),
    "number as text": ("state.json", lambda v: v.update(parameters="3"), "parameters is '3', expected int"),
    "true for 1": ("state.json", lambda v: v.update(graph=True), "graph is True, expected int"),
    "records": ("state.json", lambda v: v.update(records={}), "records is {}, expected tuple"),
    "record": ("state.json", lambda v: v.update(records=[7]), "record 0 is 7, expected an object"),
    "field": ("state.json", lambda v: v["records"][1].pop("seconds"), "record 1: the field 'seconds' is missing"),
    "unknown": ("state.json", lambda v: v.update(mood=1), "the field 'mood' is unknown"),
    "nan": ("state.json", lambda v: v["records"][1].update(free_energy=float("nan")), "free_energy is nan"),
    "no version": ("state.json", lambda v: v.update(iteration=10**9), "posterior of version 1000000000, group-00000"),
    "ranges": ("run.json", lambda v: v["plan"].update(groups=[[0, 60], [61, 120]]), "expected a range that begins at"),
    "no ranges": ("run.json", lambda v: v["plan"].update(groups=[]), "plan: groups is [], expected ranges"),
    "rows": ("run.json", lambda v: v["plan"].update(groups=[[0, 60]]), "its plan cuts 60, and n_rows is 120"),
    "chunk 0": ("run.json", lambda v: v["plan"].update(tile_rows=0), "plan: tile_rows is 0, expected a positive"),
    "plan": ("run.json", lambda v: v["plan"].pop("tile_rows"), "plan: holds ['block_rows', 'component_blocks'"),
    "section": ("run.json", lambda v: v.update(settings=[1]), "settings is [1], expected an object"),
    "sums": ("data.json", lambda v: v.update(checksums=[]), "objects or checksums are none of this run"),
    "objects": ("data.json", lambda v: v.update(checksums=7), "objects or checksums are none of this run"),
}


@pytest.mark.parametrize("format_1", [True, False], ids=["format 1", "sealed again"])
@pytest.mark.parametrize(("name", "edit", "message"), WRONG.values(), ids=list(WRONG))
def test_values_of_a_wrong_kind_are_named_whatever_checksums_say(
    run: Path, name: str, edit: Change, message: str, format_1: bool
) -> None:
    if format_1:
        as_format_1(run)
    change(run / name, edit)
    if not format_1:
        seal(run / name)
    with pytest.raises(ValueError, match=rf"\A{re.escape(str(run))}[^\n]*{re.escape(message)}[^\n]*\Z"):
        go_on(run)


@pytest.mark.slow
def test_in_an_object_store(tmp_path: Path) -> None:
    with object_server() as port, environment_of(port):
        run = f"{make_bucket(port)}/run"
        with pytest.raises(Interrupted):
            fit_local(ROWS, **OPTIONS, max_iter=5, run=run, progress=stop_after(3))
        state, place = json.loads(place_at(run).read("state.json") or ""), place_at(run)
        place.replace("state.json", json.dumps({**state, "converged": True}))
        with pytest.raises(ValueError, match=f"{run}/state.json: its checksum does not match"):
            fit_local(ROWS, **OPTIONS, max_iter=5, run=run)
        place.replace("state.json", json.dumps(state))
        fit = fit_local(ROWS, **OPTIONS, max_iter=5, run=run, resume="require")
    assert outcome(fit) == outcome(fit_local(ROWS, **OPTIONS, max_iter=5))
