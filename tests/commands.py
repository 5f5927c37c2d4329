"""Calls of the command line in this process."""

from __future__ import annotations

from collections.abc import Sequence

from vmfa_dask.command import main


def prepare(kind: str, arguments: Sequence[str]) -> int:
    """``vmfa-dask prepare``; returns its exit code."""
    return main(["prepare", kind, *arguments])


def prepare_images(arguments: Sequence[str]) -> int:
    """``vmfa-dask prepare images``; returns its exit code."""
    return prepare("images", arguments)


def prepare_arrays(arguments: Sequence[str]) -> int:
    """``vmfa-dask prepare arrays``; returns its exit code."""
    return prepare("arrays", arguments)
