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
    # Folders list their files in any order; the hash must be the same in every process.
    ordered = sorted(sources, key=lambda file: file.name)
    return hashlib.sha256(b"".join(file.read_bytes() for file in ordered)).hexdigest()[:10]


_SOURCES = _hash_of_sources()


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile lazily, nogil; kept on disk unless no folder for that can be written (Numba refuses at once then)."""
    # Files of the cache are named after the qualified name.
    function.__qualname__ = f"{function.__qualname__}_{_SOURCES}"
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


def cache_folder() -> str | None:
    """Folder in which Numba keeps the compiled code of this room.

    Returns
    -------
    str or None
        None where no folder for it can be written: each process compiles for itself then.
    """

    def nothing() -> None: ...

    # Only Numba knows which of its places it can write; the dispatcher of any function of this file says so.
    folder: str | None = _compiled(nothing).stats.cache_path
    return folder


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel lazily: nogil, cached on disk, IEEE arithmetic.

    Parameters
    ----------
    function : callable
        The Python function; it is compiled for each combination of argument types when first called with it.

    Returns
    -------
    numba.core.dispatcher.Dispatcher
        The kernel, called as `function` is; the function itself is its attribute ``py_func``.
    """
    return _compiled(function)


def inline(function: Callable[..., Any]) -> Any:
    """Compile a small function that kernels call; LLVM folds it into them.

    Parameters
    ----------
    function : callable
        As for `kernel`.

    Returns
    -------
    numba.core.dispatcher.Dispatcher
        The compiled function. It can be called from Python as well.
    """
    # "never" refers to Numba's inlining of untyped source. LLVM inlines the machine code all the same.
    return _compiled(function, inline="never")


def inline_source(function: Callable[..., Any]) -> Any:
    """Copy a function into its callers before they are typed, as if it had been written there.

    For steps of a kernel that call large kernels: a function that is compiled by itself contains all that it calls, and
    LLVM optimizes that code again in every caller.

    Parameters
    ----------
    function : callable
        As for `kernel`, with one return at most.

    Returns
    -------
    numba.core.dispatcher.Dispatcher
        The function; called from Python, it is compiled like any other.
    """
    return _compiled(function, inline="always")


def reduction(function: Callable[..., Any]) -> Any:
    """Compile a function whose sums may be reordered, so that they are computed in vectors.

    The order is fixed for one type of processor. Results differ in the last bits between types.

    Parameters
    ----------
    function : callable
        As for `kernel`.

    Returns
    -------
    numba.core.dispatcher.Dispatcher
        The compiled function.
    """
    return _compiled(function, fastmath={"reassoc", "contract"})
