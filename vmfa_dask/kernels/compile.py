"""How every kernel of the project is compiled: the one place for decorator options.

Kernels run inside threads of our own pool (`em.threads`), never inside Numba's parallel layers: results then cannot
depend on a threading layer or on the number of threads, several Dask threads can enter one kernel at the same time,
and there is nothing to abort. So each kernel releases the GIL and takes a range of the work. No fast-math flag is
set, except in `reduction`, which may reorder one sum: flags that assume away NaN or infinity never are.

Compiled code is kept on disk (`NUMBA_CACHE_DIR`, or `__pycache__` beside the source). Processes that start together
may write one cache at once: `warm_up` therefore compiles under a file lock (see `cluster.warmup`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile lazily, nogil; kept on disk unless no folder for that can be written (Numba refuses at once then)."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:
        return njit(nogil=True, **options)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel lazily: nogil, cached on disk, IEEE arithmetic."""
    return _compiled(function)


def inline(function: Callable[..., Any]) -> Any:
    """A small function that kernels call; LLVM folds it into them."""
    return _compiled(function, inline="never")


def reduction(function: Callable[..., Any]) -> Any:
    """A sum that may be reordered so that it is computed in vectors; the order is fixed for one processor type."""
    return _compiled(function, fastmath={"reassoc", "contract"})
