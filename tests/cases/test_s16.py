"""S16: memory that an array, a view or anything else still holds is never given out again, whatever counts references.

Ownership is tied to the life of an object that every array of the pool has as its base.
"""

from __future__ import annotations

import ast
import copy
import gc
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmfa_dask
from vmfa_dask.em.rows import read_only
from vmfa_dask.runtime.buffers import BufferPool

SHAPE, KIND = (300, 1000), "float64"  # 2.4 MB: from the pool


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


class Holder:
    """Holds an array in a cycle of references, which only the collector ends."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.me = array, self


HOLDS: dict[str, Callable[[np.ndarray], Any]] = {
    "the array": lambda a: a,
    "slice": lambda a: a[5:9],
    "column": lambda a: a[:, 3],
    "reshaped": lambda a: a.reshape(-1),
    "transposed": lambda a: a.T,
    "other dtype": lambda a: a.view(np.uint8),
    "view of views": lambda a: a[1:].view(np.int64).reshape(-1)[::7][2:].view(),
    "read-only view": read_only,
    "broadcast": lambda a: np.broadcast_to(a[0], (4, 1000)),
    "flat iterator": lambda a: a.flat,
    "real part": lambda a: a.real,
    "memoryview": memoryview,
    "part of a memoryview": lambda a: memoryview(a)[2:4],
    "array over a buffer": lambda a: np.frombuffer(memoryview(a).cast("B"), np.uint8),
    "dlpack": lambda a: np.from_dlpack(a),
    "subclass": lambda a: a.view(np.recarray),
    "masked array": lambda a: np.ma.asarray(a),
    "out= of a sum": lambda a: np.concatenate([a[:150].copy(), a[150:].copy()], out=a),
    "closure": lambda a: (lambda: a.sum()),
    "cycle": Holder,
    "base alone": lambda a: a.base,
    "dictionary": lambda a: {"rows": [a[7]]},
}


@pytest.mark.parametrize("hold", HOLDS.values(), ids=list(HOLDS))
def test_memory_that_is_held_is_left_alone(hold: Callable[[np.ndarray], Any]) -> None:
    memory = BufferPool()
    array = memory.empty(SHAPE, KIND)
    array[:] = 1.0
    place = address(array)
    held = hold(array)
    del array
    others = [memory.empty(SHAPE, KIND) for _ in range(3)]
    assert place not in {address(other) for other in others}
    del held
    gc.collect()  # of the cycle; the others end at once
    assert place == address(memory.empty(SHAPE, KIND))


@pytest.mark.parametrize(
    "copied", [np.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a)), np.ascontiguousarray]
)
def test_a_copy_has_memory_of_its_own(copied: Callable[[np.ndarray], np.ndarray]) -> None:
    memory = BufferPool()
    array = memory.empty(SHAPE, KIND)
    array[:] = 3.0
    place, other = address(array), copied(array.T if copied is np.ascontiguousarray else array)
    del array
    again = memory.empty(SHAPE, KIND)
    again[:] = 4.0
    assert address(again) == place
    assert (other == 3.0).all()


def test_an_array_outlives_its_pool() -> None:
    memory = BufferPool()
    array = memory.empty(SHAPE, KIND)
    array[:] = 2.0
    del memory
    gc.collect()
    np.full(SHAPE, 5.0)
    assert (array == 2.0).all()


@pytest.mark.slow
def test_arrays_that_the_collector_ends_inside_the_pool_do_no_harm() -> None:
    """The collector can run while the pool is locked: giving back must not wait for that lock."""
    memory, done = BufferPool(), threading.Event()

    def work() -> None:
        for _ in range(8):
            Holder(memory.empty(SHAPE, KIND))
            with memory._lock:
                gc.collect()
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(60)


def test_threads_that_pass_arrays_on_never_share_memory() -> None:
    memory, failures = BufferPool(), []

    def work(number: int) -> None:
        kept: list[np.ndarray] = []
        for turn in range(60):
            array = memory.empty(SHAPE, "int32")
            array[:] = number * 1000 + turn
            kept.append(array[turn : turn + 2])
            if len(kept) > 3:
                kept.pop(0)
            failures.extend(part for part in kept if len(np.unique(part)) != 1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_in_the_package_counts_references() -> None:
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in Path(vmfa_dask.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert not names & {"getrefcount", "get_referrers", "getallocatedblocks"}
