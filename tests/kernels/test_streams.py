"""Streamed stores write what ordinary ones would, wherever the target begins and ends."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.kernels.compile import kernel
from vmfa_dask.kernels.streams import finish_streams, stream


@kernel
def copy(source, out_target):  # type: ignore[no-untyped-def]
    stream(source, out_target)
    finish_streams()


@pytest.mark.parametrize("read", ["float32", "float64"])
@pytest.mark.parametrize("written", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0, 1, 3, 16])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 64, 71])
def test_values_are_rounded_and_nothing_around_them_is_touched(read: str, written: str, offset: int, n: int) -> None:
    source = np.random.default_rng(0).normal(size=n).astype(read)
    memory = np.full(offset + n + 40, -1.0, written)
    copy(source, memory[offset : offset + n])
    np.testing.assert_array_equal(memory[offset : offset + n], source.astype(written))
    assert np.all(memory[:offset] == -1)
    assert np.all(memory[offset + n :] == -1)
