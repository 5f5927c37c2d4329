"""Near pairs against plain NumPy, whatever the ranges of rows."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.kernels.doubts import near_pairs


@pytest.mark.parametrize("n_rows", [1, 63, 64, 200])
def test_near_pairs(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    norms, relative = rng.normal(size=9), rng.uniform(0, 0.02, 9)
    joints = norms[:, None] - rng.exponential(50, (9, n_rows))
    joints[4] = joints[2]  # ties
    joints[:, ::7] = norms[:, None] - 50  # more pairs than rows
    joints[3, 0] = -np.inf
    floors, best = np.empty(n_rows), np.empty(n_rows, np.int64)
    middle = n_rows // 3
    parts = [near_pairs(joints, norms, relative, a, b, floors, best) for a, b in ((0, middle), (middle, n_rows))]
    components, rows = (np.concatenate(pairs) for pairs in zip(*parts, strict=True))
    joints[3, 0] = norms[3] - 50
    errors = relative[:, None] * (norms[:, None] - joints)
    np.testing.assert_array_equal(best, joints.argmax(axis=0))
    known = (joints - errors).max(axis=0)
    known[0] = np.nan
    np.testing.assert_allclose(floors, known, rtol=1e-13)
    near = joints + errors >= (joints - errors)[best, np.arange(n_rows)]
    near[:, 0] = False
    assert set(zip(components.tolist(), rows.tolist(), strict=True)) == set(zip(*np.nonzero(near), strict=True))
    assert near.sum() >= min(n_rows - 1, 60)
