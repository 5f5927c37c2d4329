"""A call of a fit, checked as far as that is possible before its data is opened. May import: run, service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vmfa_dask.run.start import Start
from vmfa_dask.service.inputs import BegunStart, asked_settings, given_start, make_settings
from vmfa_dask.service.keywords import DEFAULTS, SettingsKeywords
from vmfa_dask.service.options import Options, make_options


@dataclass(frozen=True)
class Call:
    """The checked keywords of a call.

    Parameters
    ----------
    asked : dict
        Settings that the call asks for, those of its preset included.
    options : Options
        How the fit works, beside what it computes.
    selection : dict
        `array`, `sample_dim` and `missing_chunks`: which rows of the data.
    start : Start, BegunStart or None
        What training begins with in place of seeds.
    same : dict
        Keywords that make another call the same run: preset and settings as they came.
    """

    asked: Mapping[str, Any]
    options: Options
    selection: Mapping[str, Any]
    start: Start | BegunStart | None
    same: Mapping[str, Any]


def checked_call(kind: type, n_components: int, keywords: Mapping[str, Any], detach: bool = False) -> Call:
    """Check the keywords of a call.

    Parameters
    ----------
    kind : type
        `LocalKeywords` or `ClusterKeywords`: which keywords the fit has.
    n_components : int
        C.
    keywords : mapping
        As they came; others than those of the fit count as settings.
    detach : bool
        Whether the driver works on the cluster.

    Returns
    -------
    Call
        With defaults for what was left out.

    Raises
    ------
    TypeError
        Naming a keyword that the fit does not have, or a start that is none.
    ValueError
        Naming the keyword, what was found and what is expected.
    """
    names = [name for name in kind.__annotations__ if name not in SettingsKeywords.__annotations__]
    given = {name: keywords.get(name, DEFAULTS[name]) for name in names}
    settings = {"n_components": n_components, **{name: keywords[name] for name in keywords if name not in given}}
    asked = asked_settings(given["preset"], settings)
    if given["start"] is not None:
        if asked.get("locality"):
            raise ValueError("locality=True: expected no start, as cells are made of seeds")
        asked["locality"] = False  # neither near neighbours nor the order of rows come from a start
    make_settings(**asked)
    names_of_options = {field.name for field in fields(Options)}
    options = make_options(**{name: value for name, value in given.items() if name in names_of_options}, detach=detach)
    selection = {name: given[name] for name in ("array", "sample_dim", "missing_chunks")}
    return Call(asked, options, selection, given_start(given["start"]), {"preset": given["preset"], **settings})
