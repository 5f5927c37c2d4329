"""Compiled loops on bare arrays. May import: numpy, numba, llvmlite."""
