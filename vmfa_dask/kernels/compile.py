"""How every kernel of the project is compiled: the one place for decorator options.

Kernels run inside threads of our own pool (`runtime.threads`), never inside Numba's parallel layers: results then
cannot depend on a threading layer or on the number of threads, several Dask threads can enter one kernel at the same
time, and there is nothing to abort. So each kernel releases the GIL and takes a range of the work. No fast-math flag is
set, except in `reduction`, which may reorder one sum: flags that assume away NaN or infinity never are. Division is
that of IEEE: a check for zero in each one, as Python's own needs it, keeps loops out of vector registers.

Compiled code is kept on disk (`NUMBA_CACHE_DIR`, or `__pycache__` beside the source). Processes that start together
may write one cache at once: `cluster.compilation` therefore compiles under a file lock. Numba notices that the file
of a kernel has changed, but not the files of what is compiled into it; so the names under which code is kept
carry a hash of all sources of this room, and an updated checkout never runs old code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from numba import njit


def _hash_of_sources() -> str:
    sources = (file for file in files(__package__).iterdir() if file.name.endswith(".py"))
    ordered = sorted(sources, key=lambda file: file.name)
    return hashlib.sha256(b"".join(file.read_bytes() for file in ordered)).hexdigest()[:10]


_SOURCES = _hash_of_sources()


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile lazily, nogil; kept on disk unless no folder for that can be written (Numba refuses at once then)."""
    function.__qualname__ = f"{function.__qualname__}_{_SOURCES}"
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


def cache_folder() -> str | None:
    """Folder in which Numba keeps the compiled code of this room; None where it can write none."""

    def nothing() -> None: ...

    folder: str | None = _compiled(nothing).stats.cache_path
    return folder


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel lazily: nogil, cached on disk, IEEE arithmetic."""
    return _compiled(function)


def inline(function: Callable[..., Any]) -> Any:
    """A small function that kernels call; LLVM folds it into them."""
    return _compiled(function, inline="never")


def reduction(function: Callable[..., Any]) -> Any:
    """A sum that may be reordered so that it is computed in vectors; the order is fixed for one processor type."""
    return _compiled(function, fastmath={"reassoc", "contract"})
