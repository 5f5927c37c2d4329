"""A store, and a model and a run that the command line has made of it; all tests of the commands share them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples import images, write_store
from vmfa_dask.command import main


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """600 images of 4 x 4 pixels."""
    return write_store(tmp_path_factory.mktemp("command") / "images.zarr", images(600, (4, 4)), 100)


@pytest.fixture(scope="session")
def fitted(store: str) -> tuple[str, str]:
    """Paths of the model and of the run of a fit."""
    folder = Path(store).parent
    model, run = str(folder / "model.zarr"), str(folder / "run")
    words = ["fit", store, "--n-components", "3", "--n-factors", "2", "--output", model, "--run", run, "-q"]
    assert main(words) == 0
    return model, run


@pytest.fixture
def model(fitted: tuple[str, str]) -> str:
    """Path of a saved model."""
    return fitted[0]


@pytest.fixture
def run(fitted: tuple[str, str]) -> str:
    """Path of a finished run."""
    return fitted[1]
