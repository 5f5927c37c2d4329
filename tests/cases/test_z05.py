"""Z05: small chunks, in shards or not, make neither many tasks nor read anything twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from numpy.typing import NDArray

from tests.samples import draw, fixed_passes, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local

OPTIONS = fixed_passes(20, 3, max_warmup_iter=2, max_iter=3, n_groups=8, cache_bytes=0)
LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": {"chunks": (256, 64), "shards": (8192, 64)},
    "compressed shards": {"chunks": (256, 64), "shards": (8192, 64), "compressors": "auto"},
    "small chunks": {"chunks": (128, 64), "compressors": "auto"},
}


@pytest.fixture(scope="module")
def data() -> NDArray[Any]:
    return draw(make_mixture(12, 64, 3), 131_072, dtype="float32")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, data: NDArray[Any]) -> bytes:
    """Parameters from one chunk that holds all rows."""
    path = write_store(tmp_path_factory.mktemp("whole") / "x.zarr", data, (131_072, 64), compressors=None)
    return parameters(fit_local(path, **OPTIONS).model)


def e_steps(client: Client) -> int:
    """Partial E-steps that the scheduler has seen."""
    return sum("e-step" in str(task["key"]) for task in client.get_task_stream(count=100_000))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.slow
def test_each_stored_byte_is_read_once_per_pass_by_few_tasks(
    tmp_path: Path, processes: Client, data: NDArray[Any], expected: bytes, layout: str
) -> None:
    options = {"compressors": None, **LAYOUTS[layout]}
    path = write_store(tmp_path / "x.zarr", data, options.pop("chunks"), **options)
    stored = sum(f.stat().st_size for f in (tmp_path / "x.zarr" / "c").rglob("*") if f.is_file())
    before = e_steps(processes)
    fit = fit_distributed(path, client=processes, **OPTIONS)
    assert e_steps(processes) - before == len(fit.history) * 8
    for record in fit.history:
        assert record.bytes_read == pytest.approx(stored, rel=0.01)
    assert parameters(fit.model) == expected
