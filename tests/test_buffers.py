"""Memory of arrays that are gone serves the next ones; memory of arrays that live never does."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vmfa_dask.runtime.buffers import BufferPool

SHAPE = (300, 1000)  # float64: 2.4 MB


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_of_an_array_that_is_gone_is_used_again() -> None:
    memory = BufferPool()
    first = memory.empty(SHAPE, "float64")
    place = address(first)
    del first
    assert address(memory.empty((1000, 300), "float64")) == place


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[3:7],
        lambda array: array[:, 1].reshape(-1)[::2],
        lambda array: array.view(np.int64)[0],
        lambda array: memoryview(array)[2:],
    ],
)
def test_memory_that_anyone_holds_is_left_alone(hold: object) -> None:
    memory = BufferPool()
    array = memory.empty(SHAPE, "float64")
    array[:] = 1.0
    held = hold(array)  # type: ignore[operator]
    del array
    other = memory.empty(SHAPE, "float64")
    other[:] = 2.0
    assert np.all(np.asarray(held) == np.ones(1).view(np.asarray(held).dtype)[0])


@pytest.mark.parametrize(("shape", "dtype"), [((5,), "float64"), (SHAPE, "float32"), (SHAPE, "uint8"), ((0, 7), "f8")])
def test_arrays_begin_at_a_cache_line_and_can_be_written(shape: tuple[int, ...], dtype: str) -> None:
    array = BufferPool().empty(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.c_contiguous
    assert array.size == 0 or address(array) % 64 == 0
    array[:] = 3


def test_few_idle_buffers_are_kept() -> None:
    memory = BufferPool()
    held = [memory.empty(SHAPE, "float64") for _ in range(6)]
    places = {address(array) for array in held}
    assert len(places) == 6
    del held
    gc.collect()
    memory.empty((400, 1000), "float64")
    assert len(memory._idle) == 2
    again = [memory.empty(SHAPE, "float64") for _ in range(6)]
    assert len({address(array) for array in again}) == 6


def test_threads_never_share_memory() -> None:
    memory = BufferPool()

    def work(number: int) -> bool:
        for _ in range(50):
            array = memory.empty(SHAPE, "int32")
            array[:] = number
            if not (array == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_an_array_that_is_a_bit_larger_each_time_keeps_its_memory() -> None:
    memory = BufferPool()
    places = set()
    for n in range(300, 330, 5):
        array = memory.empty((n, 1000), "float64")
        places.add(address(array))
        del array
    assert len(places) == 1
