"""Where compiled kernels are kept, for those who see to it that they are compiled once. May import: kernels."""

from vmfa_dask.kernels.compile import cache_folder

__all__ = ["cache_folder"]
