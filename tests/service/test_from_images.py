"""From archives of JPEGs to a store to a fit by the commands of the docs; as S3 the same store gives the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from sklearn.datasets import load_sample_images

from tests.data_prep.image_files import encoded, write_tar
from tests.programs import run_python
from tests.samples import parameters
from vmfa_dask import MixtureModel, fit_distributed, fit_local
from vmfa_dask.store.objects import zarr_target

OPTIONS: dict[str, Any] = {"n_components": 12, "n_factors": 3, "max_iter": 5, "max_warmup_iter": 3, "n_groups": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Patches of two photographs as JPEGs in three archives, made into a store by the command of the README."""
    folder = tmp_path_factory.mktemp("pictures")
    patches = [
        photograph[top : top + 12, left : left + 12]
        for photograph in load_sample_images().images
        for top in range(0, 400, 12)
        for left in range(0, 600, 12)
    ]
    order = np.random.default_rng(0).permutation(len(patches))
    for part, numbers in enumerate(np.array_split(order, 3)):
        write_tar(folder / f"train-{part}.tar", {f"{k:06d}.jpg": encoded(patches[k], "JPEG") for k in numbers})
    archives = sorted(str(path) for path in folder.glob("*.tar"))
    target = str(folder / "patches.zarr")
    done = run_python("-m", "vmfa_dask", "prepare", "images", *archives, target, timeout=120)
    assert f"{len(patches)} images written, 0 skipped" in done.stdout
    return target


@pytest.mark.slow
def test_archives_become_a_model(store: str, processes: Client, tmp_path: Path) -> None:
    rows = zarr.open_array(store, mode="r")
    assert (rows.shape[1:], rows.dtype) == ((12, 12, 3), np.uint8)
    fit = fit_distributed(store, client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)
    fit.model.save(tmp_path / "model.zarr")
    pixels = np.asarray(rows[:500])
    single = fit_local(store, n_components=1, n_factors=0, truncation=1)
    assert MixtureModel.load(tmp_path / "model.zarr").score(pixels) > single.model.score(pixels) + 50


@pytest.mark.long
def test_the_same_store_in_s3_gives_the_same_bytes(store: str, bucket: str, tmp_path: Path) -> None:
    source = zarr.open_array(store, mode="r")
    target = zarr.create_array(
        zarr_target(f"{bucket}/patches.zarr"),
        shape=source.shape,
        dtype=source.dtype,
        chunks=source.chunks,
        shards=source.shards,
        compressors=source.compressors,
        config={"write_empty_chunks": True},
    )
    target[...] = source[...]
    # Its workers have the credentials in their environment, as they were started with them there.
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as client:
        fit = fit_distributed(f"{bucket}/patches.zarr", client=client, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)
