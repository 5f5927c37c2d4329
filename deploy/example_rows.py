"""Rows to try a cluster with: ``python -m deploy.example_rows PATH_OR_URL`` writes 20,000 rows of 64 features."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import zarr
from zarr.storage import LocalStore, ObjectStore


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m deploy.example_rows")
    parser.add_argument("target", help="path, or URL of an object store; an older array there is replaced")
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    centers, planes = rng.normal(0, 3, (10, 64)), rng.normal(0, 1, (10, 3, 64))
    group = rng.integers(10, size=options.rows)
    rows = centers[group] + np.einsum("nh,nhd->nd", rng.normal(size=(options.rows, 3)), planes[group])
    rows += rng.normal(0, 0.5, rows.shape)
    zarr.create_array(store_of(options.target), data=rows.astype(np.float32), chunks=(2_000, 64), overwrite=True)
    print(f"{options.rows} rows of 64 features written to {options.target}")


def store_of(target: str) -> LocalStore | ObjectStore:
    """Where Zarr writes.

    Parameters
    ----------
    target : str
        Path or URL.

    Returns
    -------
    zarr.storage.LocalStore or zarr.storage.ObjectStore
        The latter needs the extra ``cloud``.
    """
    if "://" not in target:
        return LocalStore(target)
    from obstore.store import from_url

    return ObjectStore(from_url(target))


if __name__ == "__main__":
    main()
