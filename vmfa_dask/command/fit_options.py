"""The options of a fit, made of the keywords of `fit_distributed`, and the call that they make.

May import: command, run, apply, service, click.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from vmfa_dask.command.groups import CLUSTER, SectionOption
from vmfa_dask.command.keywords import keyword_options, parameter_docs
from vmfa_dask.command.options import cluster_options
from vmfa_dask.run.settings import Settings
from vmfa_dask.service.call import Call, checked_call
from vmfa_dask.service.fit import fit_distributed
from vmfa_dask.service.inputs import PRESETS
from vmfa_dask.service.keywords import DEFAULTS, ClusterKeywords, SettingsKeywords
from vmfa_dask.service.planned_rows import rows_of_size as sized

DOCS: Mapping[str, str] = parameter_docs(Settings.__doc__, fit_distributed.__doc__)
"""Descriptions of the keywords of a fit, by name."""
# `client` and `threads` are options of the cluster, progress is shown by the log, and no path is an object of xarray.
_LEFT_OUT = ("client", "threads", "progress", "verbose", "sample_dim")


def settings_options(required: bool = True) -> list[click.Option]:
    """Make the options for the settings of a run.

    Parameters
    ----------
    required : bool
        Whether the number of components must be given.

    Returns
    -------
    list of click.Option
    """
    section = "Settings"
    n_components = SectionOption(
        ["--n-components"], type=click.INT, metavar="N", required=required, help=DOCS["n_components"], section=section
    )
    preset = SectionOption(["--preset"], type=click.Choice(tuple(PRESETS)), help=DOCS["preset"], section=section)
    return [n_components, preset, *keyword_options(SettingsKeywords, DOCS, DEFAULTS, section=section)]


def fit_options() -> list[click.Option]:
    """Make the options of a fit.

    Returns
    -------
    list of click.Option
        All keywords of `fit_distributed` that are for data in a store, and those of a cluster.
    """
    settings = [*SettingsKeywords.__annotations__, "preset"]
    rows_and_run = keyword_options(
        ClusterKeywords, DOCS, DEFAULTS, left_out=[*settings, *_LEFT_OUT], section="Rows and run"
    )
    detach = SectionOption(
        ["--detach"], is_flag=True, section=CLUSTER,
        help="Let the driver run on the cluster of --scheduler, and return at once; 'vmfa-dask status RUN' follows it.",
    )  # fmt: skip
    return [*settings_options(), *rows_and_run, *cluster_options(), detach]


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that have a value.

    Parameters
    ----------
    options : mapping of str to object
        None where an option was not given.

    Returns
    -------
    dict of str to object
    """
    return {name: value for name, value in options.items() if value is not None}


def checked(keywords: Mapping[str, Any], detach: bool = False) -> Call:
    """Check the keywords of a fit as far as that is possible before its data is opened.

    Parameters
    ----------
    keywords : mapping of str to object
        With `n_components`.
    detach : bool
        Whether the driver works on the cluster.

    Returns
    -------
    Call

    Raises
    ------
    click.UsageError
        Naming the option, what was found and what is expected.
    """
    known = {name: value for name, value in keywords.items() if name in ClusterKeywords.__annotations__}
    try:
        return checked_call(ClusterKeywords, keywords["n_components"], {**known, "start": None}, detach)
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def rows_of_size(n_rows: int, n_features: int, dtype: str, chunk_rows: int | None) -> Any:
    """What a plan needs to know of rows that do not exist yet.

    Parameters
    ----------
    n_rows, n_features : int
        N and D.
    dtype : str
        Of the store.
    chunk_rows : int, optional
        Rows of a chunk; by default about 2 MiB, as `prepare` makes them.

    Returns
    -------
    RowSource
        Without rows to read.

    Raises
    ------
    click.UsageError
        When the dtype is none of numbers.
    """
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise click.UsageError(f"--dtype {dtype}: expected an integer or float dtype such as uint8") from error
    return sized(n_rows, n_features, kind, chunk_rows)
