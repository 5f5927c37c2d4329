"""The examples in the docstrings of what users call run, and say what happens."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "vmfa_dask",
    "vmfa_dask.apply.completion",
    "vmfa_dask.apply.components",
    "vmfa_dask.apply.labelled_parameters",
    "vmfa_dask.apply.model",
    "vmfa_dask.apply.outliers",
    "vmfa_dask.apply.parameters",
    "vmfa_dask.apply.posteriors",
    "vmfa_dask.apply.row_methods",
    "vmfa_dask.apply.sampling",
    "vmfa_dask.plot",
    "vmfa_dask.service.denoising",
    "vmfa_dask.service.detached",
    "vmfa_dask.service.estimator",
    "vmfa_dask.service.fit",
    "vmfa_dask.service.inference",
    "vmfa_dask.service.model_choice",
    "vmfa_dask.service.training",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
