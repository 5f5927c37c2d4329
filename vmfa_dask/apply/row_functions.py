"""What a model computes of each row, by the name of the method: columns of results, and the function of a row block.

Methods in memory, results in a store and tasks on a cluster all go through here, so they give the same bytes.
May import: values, em, run, store, apply, numpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.em.rows import Rows
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.store.results import Column
from vmfa_dask.values import Mixture

Results = dict[str, NDArray[Any]]
# Methods and their options.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "score_samples": (),
    "predict": (),
    "predict_proba": ("truncation",),
    "transform": ("weighted",),
    "reconstruct": ("truncation",),
}


@dataclass(frozen=True)
class RowFunction:
    """A method of a model that gives results for each row, with its options.

    Parameters
    ----------
    method : str
        Name of the method of `MixtureModel`.
    options : mapping
        Its options, checked.
    columns : mapping of str to Column
        What it gives, by name.
    """

    method: str
    options: Mapping[str, Any]
    columns: Mapping[str, Column]

    @property
    def row_bytes(self) -> int:
        """Bytes of the results of a row."""
        return sum(column.row_bytes for column in self.columns.values())

    def of_block(self, evaluator: Evaluator, block: Rows) -> Results:
        """Results of a row block.

        Parameters
        ----------
        evaluator : Evaluator
            Of the model.
        block : (n, D) array
            Finite rows as they are stored.

        Returns
        -------
        dict of str to array
            Columns by name.
        """
        return _FUNCTIONS[self.method](evaluator, block, **self.options)

    def of_range(self, evaluator: Evaluator, rows: RowSource, start: int = 0, stop: int | None = None) -> Results:
        """Results of a range of rows, computed row block by row block.

        Parameters
        ----------
        evaluator : Evaluator
            Of the model.
        rows : RowSource
            Rows of the width of the model.
        start, stop : int, optional
            The range; by default all rows.

        Returns
        -------
        dict of str to array
            Columns by name.

        Raises
        ------
        ValueError
            At a row that holds NaN or infinity.
        """
        stop = rows.n_rows if stop is None else stop
        results = {
            name: np.empty((stop - start, *column.shape), column.dtype) for name, column in self.columns.items()
        }
        for part, block in evaluator.blocks(rows, start, stop):
            with evaluator.cores.exclusive():  # reading and writing of other threads go on meanwhile
                of_block = self.of_block(evaluator, block)
            for name, values in of_block.items():
                target = results[name][part.start - start : part.stop - start]
                target[...] = values.reshape(target.shape)
        return results


def row_function(mixture: Mixture, method: str, options: Mapping[str, Any]) -> RowFunction:
    """Make the row function of a method and its options.

    Parameters
    ----------
    mixture : Mixture
        The model.
    method : {"score_samples", "predict", "predict_proba", "transform", "reconstruct"}
        Name of the method of `MixtureModel`.
    options : mapping
        Options of the method, by name.

    Returns
    -------
    RowFunction
        With all options of the method.

    Raises
    ------
    TypeError
        Naming an option that the method does not have.
    ValueError
        Naming an unknown method, or an option that is outside its range.
    """
    if method not in _OPTIONS:
        raise ValueError(f"method={method!r}: expected one of {tuple(_OPTIONS)}")
    unknown = sorted(set(options) - set(_OPTIONS[method]))
    if unknown:
        known = ", ".join(_OPTIONS[method]) or "none"
        raise TypeError(f"unknown option {unknown[0]!r} of {method!r}; its options: {known}")
    checked: dict[str, Any] = {}
    if "truncation" in _OPTIONS[method]:
        checked["truncation"] = _truncation(options.get("truncation"), mixture.n_components)
    if "weighted" in _OPTIONS[method]:
        checked["weighted"] = _flag("weighted", options.get("weighted", False))
    return RowFunction(method, checked, _columns(mixture, method, checked.get("truncation")))


def rows_column(feature_shape: tuple[int, ...]) -> Column:
    """Make a column whose entries are rows in the units of the data.

    Parameters
    ----------
    feature_shape : tuple of int
        Shape of a row.

    Returns
    -------
    Column
        Of float64.
    """
    one_axis = len(feature_shape) == 1
    names = ("feature",) if one_axis else tuple(f"feature_{k}" for k in range(len(feature_shape)))
    return Column(feature_shape, "float64", names)


def _truncation(truncation: Any, n_components: int) -> int | None:
    """C' as a plain number, or None for all components."""
    if truncation is None:
        return None
    try:
        size = -1 if isinstance(truncation, bool) else operator.index(truncation)
    except TypeError:
        size = -1
    if not 1 <= size <= n_components:
        raise ValueError(f"truncation={truncation!r}: expected None or 1 to n_components={n_components}")
    return size


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}: expected True or False")
    return bool(value)


def _columns(mixture: Mixture, method: str, truncation: int | None) -> dict[str, Column]:
    c = mixture.n_components
    if method == "score_samples":
        return {"log_density": Column((), "float64")}
    if method == "predict":
        return {"component": Column((), "int64", limit=c)}
    if method == "transform":
        return {"factors": Column((mixture.n_factors,), "float64", ("factor",))}
    if method == "reconstruct":
        return {"reconstruction": rows_column(mixture.feature_shape)}
    if truncation is None:
        return {"probabilities": Column((c,), "float64", ("component",))}
    return {
        "components": Column((truncation,), "int32", ("rank",), limit=c),
        "probabilities": Column((truncation,), "float64", ("rank",)),
        "captured": Column((), "float64"),
    }


def _probabilities(evaluator: Evaluator, block: Rows, truncation: int | None) -> Results:
    if truncation is None:
        return {"probabilities": evaluator.probabilities(block)}
    return vars(evaluator.kept_probabilities(block, truncation))


_FUNCTIONS: Mapping[str, Callable[..., Results]] = {
    "score_samples": lambda evaluator, block: {"log_density": evaluator.scores(block)},
    "predict": lambda evaluator, block: {"component": evaluator.labels(block)},
    "predict_proba": _probabilities,
    "transform": lambda evaluator, block, weighted: {"factors": evaluator.factors(block, weighted)},
    "reconstruct": lambda evaluator, block, truncation: {"reconstruction": evaluator.expected(block, truncation)},
}
