"""What kernels are compiled for in a process: sums have one part per lane of a vector register, and round by it.

May import: kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vmfa_dask.kernels import vector

_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
# What all processors can be told to compile for, by the width of the narrowest one. (Numba has no features of its own
# then: those of the name count, and the two that registers are chosen by.)
_COMMON = {128: "NUMBA_CPU_NAME=generic", 256: "NUMBA_CPU_NAME=haswell and NUMBA_CPU_FEATURES=+avx2,+fma"}
_COMMON_WIDE = "NUMBA_CPU_NAME=skylake-avx512 and NUMBA_CPU_FEATURES=+avx512f,+avx2,+fma"


@dataclass(frozen=True)
class Processor:
    """What kernels of a process are compiled for.

    Parameters
    ----------
    machine : str
        Architecture, such as "x86_64".
    vector_bits : int
        Width of the vector registers that kernels use.
    byte_order : {"little", "big"}
    model : str
        LLVM's name of the processor. Sums that LLVM puts into vectors by itself may depend on it.
    """

    machine: str
    vector_bits: int
    byte_order: str
    model: str

    def rounds_as(self, other: Processor) -> bool:
        """Whether sums have the same parts on both, wherever the package itself cuts them.

        Parameters
        ----------
        other : Processor

        Returns
        -------
        bool
            True for processors that differ in their model alone.
        """
        return replace(self, model="") == replace(other, model="")

    def __str__(self) -> str:
        order = "" if self.byte_order == "little" else f", {self.byte_order}-endian"
        return f"{self.model} ({self.machine}, vectors of {self.vector_bits} bits{order})"


def this_processor() -> Processor:
    """What kernels of this process are compiled for.

    Returns
    -------
    Processor
        That of this machine, or the one that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name.
    """
    machine = vector.TRIPLE.partition("-")[0]
    model = vector.CPU_NAME if vector.HAS_FMA else f"{vector.CPU_NAME} without FMA"
    return Processor(_OTHER_NAMES.get(machine, machine), 8 * vector.VECTOR_BYTES, sys.byteorder, model)


def how_to_agree(processors: Iterable[Processor]) -> str:
    """What to set so that processes on these processors round alike.

    Parameters
    ----------
    processors : iterable of Processor
        At least one.

    Returns
    -------
    str
        A clause for an error message.
    """
    distinct = list(processors)
    if len({(processor.machine, processor.byte_order) for processor in distinct}) > 1:
        return "use workers of one architecture"
    if distinct[0].machine != "x86_64":
        return "use workers of one kind"
    # The narrowest registers decide: wider processors can compile for them, not the other way round.
    common = _COMMON.get(min(processor.vector_bits for processor in distinct), _COMMON_WIDE)
    return f"use workers of one kind, or set {common} in the environment of all workers, and restart them"
