"""The settings and the start of a call. May import: values, run, store, apply, numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.run.component_blocks import PARAMETER_NAMES
from vmfa_dask.run.defaults import suited_to_data
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.run.start import Start
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.run_inspection import read_settings
from vmfa_dask.values import Mixture

_FINGERPRINT_ROWS = 16
# Settings by the name of a preset, where they differ from the defaults.
PRESETS: Mapping[str, Mapping[str, Any]] = {"default": {}, "paper": PAPER}


def make_settings(**settings: Any) -> Settings:
    """Make settings from keywords.

    Parameters
    ----------
    **settings : object
        Fields of `Settings`.

    Returns
    -------
    Settings
        With defaults for fields that were left out.

    Raises
    ------
    TypeError
        Naming an unknown keyword and the known ones.
    ValueError
        As `Settings`.
    """
    names = [field.name for field in fields(Settings)]
    unknown = sorted(set(settings) - set(names))
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; the settings of a run are {', '.join(names)}")
    return Settings(**settings)


def asked_settings(preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that a call asks for.

    Parameters
    ----------
    preset : str
        One of `PRESETS`.
    settings : mapping
        Keywords of the call; None leaves a setting to the preset, or to its default.

    Returns
    -------
    dict
        Those of the preset, and the keywords that are not None.

    Raises
    ------
    ValueError
        When there is no such preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset={preset!r}: expected one of {tuple(PRESETS)}")
    return {**PRESETS[preset], **{name: value for name, value in settings.items() if value is not None}}


def preset_of_run(run: str | None) -> Mapping[str, Any]:
    """Defaults of the version that has begun a run: those of 0.1.0 were the paper's settings, others had less.

    Parameters
    ----------
    run : str or None
        Folder or URL of the run.

    Returns
    -------
    mapping
        Settings by name; empty where the defaults of today hold.

    Raises
    ------
    ValueError
        When the run's settings are damaged.
    """
    stored = read_settings(run) if run is not None else {}
    if stored and "n_init" not in stored:
        return PAPER
    return {name: False for name in ("locality", "screening") if stored and name not in stored}


def settings_of_fit(asked: Mapping[str, Any], run: str | None, rows: RowSource) -> Settings:
    """Settings of a fit: those asked for, and defaults that suit the data and the run.

    Parameters
    ----------
    asked : mapping
        Settings that the call asks for, by name.
    run : str or None
        Folder or URL of the run.
    rows : RowSource
        The rows.

    Returns
    -------
    Settings
        Of the fit.

    Raises
    ------
    ValueError
        When they cannot be trained on rows of this number and width.
    """
    asked = {**preset_of_run(run), **asked}
    settings = suited_to_data(make_settings(**asked), asked, rows.n_rows, n_features_of(rows))
    settings.check_against(rows.n_rows, n_features_of(rows), rows.label if isinstance(rows, ZarrRows) else "")
    return settings


@dataclass(frozen=True)
class BegunStart:
    """The start of a run that another process has begun with it, without its arrays.

    Parameters
    ----------
    digest : str or None
        By which the start is recognised; None where the run was begun from seeds.
    """

    digest: str | None


def given_start(start: Start | Mixture | MixtureModel | BegunStart | None) -> Start | BegunStart | None:
    """Make a start of what a call has given: parameters alone are one, and so is the model of a fit.

    Parameters
    ----------
    start : Start, Mixture, MixtureModel, BegunStart or None
        As the call has given it.

    Returns
    -------
    Start, BegunStart or None
        None where seeds are drawn.

    Raises
    ------
    TypeError
        When it is nothing of the kind.
    ValueError
        Naming a parameter that cannot be computed with.
    """
    if isinstance(start, MixtureModel):
        start = start.mixture
    if isinstance(start, Mixture):
        start = Start(start)
    if isinstance(start, Start):
        try:
            start.mixture.checked()
        except ValueError as error:
            raise ValueError(f"start.mixture: {error}") from error
    if start is not None and not isinstance(start, Start | BegunStart):
        raise TypeError(
            f"start: found {type(start).__module__}.{type(start).__name__}, expected a model, a Mixture or a Start"
        )
    return start


def whole_start(start: Start | BegunStart | None) -> Start | None:
    """The start as the algorithm takes it.

    Parameters
    ----------
    start : Start, BegunStart or None
        As `given_start` makes it.

    Returns
    -------
    Start or None
        None for a `BegunStart`: the run has it in its first state.
    """
    return start if isinstance(start, Start) else None


def check_start(start: Start | BegunStart | None, settings: Settings, rows: RowSource) -> None:
    """Refuse a start of other sizes than the run's, before anything of the run is written.

    Parameters
    ----------
    start : Start, BegunStart or None
        Its arrays are compared, if it has any.
    settings : Settings
        Of the run.
    rows : RowSource
        Of the run.

    Raises
    ------
    ValueError
        Naming what was found and what is expected.
    """
    if not isinstance(start, Start):
        return
    mixture = start.mixture
    layout, flat = mixture.feature_shape, (mixture.n_features,)
    same_width = mixture.n_features == n_features_of(rows)
    if not same_width or (layout != rows.feature_shape and flat not in (layout, rows.feature_shape)):
        raise ValueError(  # flat ones go with any layout
            f"start.mixture: it is for rows of shape {layout}, and the rows of the data have the shape "
            f"{rows.feature_shape}; expected {rows.feature_shape} or ({n_features_of(rows)},)"
        )
    sizes = {
        "n_components": (mixture.n_components, settings.n_components),
        "n_factors": (mixture.n_factors, settings.n_factors),
    }
    for name, (size, expected) in sizes.items():
        if size != expected:
            raise ValueError(f"start.mixture: {name} is {size}, the run has {name}={expected}")
    shapes = {
        "graph": (start.graph.neighbors if start.graph else None, (settings.n_components, settings.graph_size)),
        "components": (start.components, (rows.n_rows, settings.truncation)),
    }
    for name, (array, shape) in shapes.items():
        if array is not None and np.shape(array) != shape:
            raise ValueError(f"start.{name}: shape {np.shape(array)}, expected {shape}")


def describe_start(start: Start | BegunStart | None) -> dict[str, Any]:
    """Describe a start, for recognising it when a run is resumed.

    Parameters
    ----------
    start : Start, BegunStart or None
        Of the run.

    Returns
    -------
    dict
        "digest": a hash of all its numbers; None where seeds are drawn.
    """
    if not isinstance(start, Start):
        return {"digest": start.digest if start is not None else None}
    digest, mixture = hashlib.sha256(), start.mixture
    arrays = {
        **{name: getattr(mixture, name) for name in (*PARAMETER_NAMES, "offset")},
        "neighbors": start.graph.neighbors if start.graph else None,
        "components": start.components,
    }
    for name, array in arrays.items():
        if array is not None:
            values = np.ascontiguousarray(array, np.float64)  # a model is the same one in any precision
            digest.update(f"{name}{values.shape}".encode())
            digest.update(values.data)
    return {"digest": digest.hexdigest()[:16]}


def describe_rows(rows: RowSource) -> dict[str, Any]:
    """Describe rows, for recognising them when a run is resumed.

    Parameters
    ----------
    rows : RowSource
        Of the run.

    Returns
    -------
    dict
        Sizes, dtype, and a hash of some of the rows.

    Raises
    ------
    OSError, ValueError
        When a row cannot be read.
    """
    digest = hashlib.sha256()
    for row in np.unique(np.linspace(0, rows.n_rows - 1, _FINGERPRINT_ROWS).astype(np.int64)).tolist():
        digest.update(np.ascontiguousarray(rows.read(row, row + 1)).tobytes())
    return {
        "n_rows": rows.n_rows,
        "feature_shape": list(rows.feature_shape),
        "dtype": rows.dtype.name,
        "sample": digest.hexdigest()[:16],
    }
