"""Log-joints against dense Gaussians: types of rows and parameters, numbers of factors, widths, group sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.calls import evaluate, grouped
from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, log_joint
from vmfa_dask.em import evaluation
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import read_only
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Mixture

# A log-joint is right to this part of ½ Σ t²/σ² plus its constants.
ROUNDING = {"float32": 2e-6, "float64": 1e-12}

# Every dtype of rows, every number of factors and both precisions. Each line is one compilation; most of them serve the
# fits of other tests as well.
TYPES = [
    ("uint8", "float32", 0),
    ("uint8", "float32", 3),
    ("uint8", "float32", 5),
    ("int16", "float32", 3),
    ("int16", "float64", 5),
    ("float32", "float32", 1),
    ("float32", "float32", 3),
    ("float32", "float32", 10),
    ("float64", "float64", 0),
    ("float64", "float64", 1),
    ("float64", "float64", 3),
]


def expected(
    mixture: Mixture, rows: np.ndarray, members: np.ndarray, indptr: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log-joints of the pairs, and the scale of their rounding errors."""
    dense = Dense.of(mixture)
    owners = np.repeat(np.arange(mixture.n_components), np.diff(indptr))
    joints = np.array([log_joint(dense, c, rows[i]) for c, i in zip(owners, members, strict=True)])
    terms = (rows[members].astype(np.float64) - dense.means[owners]) ** 2 / dense.noise_variances[owners]
    return joints, 1.0 + 0.5 * terms.sum(axis=1) + np.abs(joints)


@pytest.mark.parametrize(("stored", "precision", "n_factors"), TYPES)
def test_equals_dense_gaussians(stored: str, precision: str, n_factors: int) -> None:
    for n_features in (1, 7, 64, 131):
        mixture = make_mixture(5, n_features, n_factors, seed=n_features, dtype=precision)
        offset = 12.0 if stored == "uint8" else 0.0
        mixture = Mixture(
            mixture.weights, mixture.means + np.asarray(offset, precision), mixture.loadings, mixture.noise_variances
        )
        rows = draw(mixture, 23, dtype=stored)
        # Groups of 23, 1, 0, 8 and 10 rows: full tiles, rests of tiles, a single row, an empty component.
        sizes = [23, 1, 0, 8, 10]
        owners = np.repeat(np.arange(5), sizes)
        chosen = np.concatenate([np.random.default_rng(c).permutation(23)[:size] for c, size in enumerate(sizes)])
        members, indptr = grouped(owners, chosen, 5)
        exact, scale = expected(mixture, rows, members, indptr)
        joints = evaluate(mixture, rows, members, indptr)
        np.testing.assert_array_less(np.abs(joints - exact) / scale, ROUNDING[precision])


@pytest.mark.parametrize("n_features", [1023, 1024, 1025, 2050])
def test_wide_rows_cross_tiles_of_features(n_features: int) -> None:
    mixture = make_mixture(1, n_features, 3, dtype="float32")
    rows = draw(mixture, 2, dtype="float32")
    members, indptr = grouped(np.zeros(2, int), np.arange(2), 1)
    exact, scale = expected(mixture, rows, members, indptr)
    np.testing.assert_array_less(np.abs(evaluate(mixture, rows, members, indptr) - exact) / scale, ROUNDING["float32"])


def test_a_single_row() -> None:
    mixture = make_mixture(1, 20, 3, dtype="float32")
    rows = draw(mixture, 1, dtype="float32")
    members, indptr = grouped(np.zeros(1, int), np.zeros(1, int), 1)
    exact, scale = expected(mixture, rows, members, indptr)
    np.testing.assert_array_less(np.abs(evaluate(mixture, rows, members, indptr) - exact) / scale, ROUNDING["float32"])


def ill_conditioned() -> Mixture:
    """Two components of 40 features: noise far below the loadings in the first, an ordinary second one."""
    mixture = make_mixture(2, 40, 3, dtype="float32")
    noise = mixture.noise_variances.copy()
    noise[0] = 1e-5
    return Mixture(mixture.weights, mixture.means, mixture.loadings, noise)


def test_cancelling_components_are_evaluated_precisely() -> None:
    mixture = ill_conditioned()
    assert pack_mixture(mixture, Cores(1)).precise_slot.tolist() == [0, -1]
    rows = draw(mixture, 50, dtype="float32")
    members, indptr = grouped(np.repeat([0, 1], 50), np.tile(np.arange(50), 2), 2)
    exact, _ = expected(mixture, rows, members, indptr)
    # Absolute errors, where Σ t²/σ² is some 10⁷ and the distance itself some 40 for rows of the component.
    near = np.flatnonzero(np.abs(exact[:50]) < 1e3)
    assert len(near) > 10
    joints = evaluate(mixture, rows, members, indptr)
    np.testing.assert_allclose(joints[near], exact[near], atol=1e-4)
    np.testing.assert_allclose(joints, exact, rtol=1e-5)


def test_dropped_component_is_minus_infinity() -> None:
    mixture = make_mixture(3, 9, 3, dtype="float32")
    mixture = Mixture(np.array([0.4, 0.0, 0.6]), mixture.means, mixture.loadings, mixture.noise_variances)
    rows = draw(mixture, 8, dtype="float32")
    members, indptr = grouped(np.repeat([0, 1, 2], 8), np.tile(np.arange(8), 3), 3)
    joints = evaluate(mixture, rows, members, indptr)
    assert np.all(joints[8:16] == -np.inf)
    assert np.isfinite(np.delete(joints, np.s_[8:16])).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_rows_give_non_finite_joints_and_disturb_no_other(bad: float) -> None:
    mixture = make_mixture(2, 37, 3, dtype="float32")
    rows = draw(mixture, 9, dtype="float32")
    members, indptr = grouped(np.repeat([0, 1], 9), np.tile(np.arange(9), 2), 2)
    clean = evaluate(mixture, rows, members, indptr)
    rows[4, 36] = bad
    joints = evaluate(mixture, rows, members, indptr)
    assert not np.isfinite(joints[[4, 13]]).any()
    others = members != 4
    np.testing.assert_array_equal(joints[others], clean[others])


@pytest.mark.parametrize(
    ("stored", "mixture"),
    [("float32", make_mixture(7, 70, 3, dtype="float32")), ("float32", ill_conditioned())],
    ids=["plain", "precise"],
)
def test_threads_change_no_bit(stored: str, mixture: Mixture) -> None:
    rows = draw(mixture, 200, dtype=stored)
    rng, c = np.random.default_rng(0), mixture.n_components
    members, indptr = grouped(rng.integers(0, c, 900), rng.integers(0, 200, 900), c)
    one = evaluate(mixture, rows, members, indptr, n_threads=1)
    for n_threads in (2, 5):
        np.testing.assert_array_equal(evaluate(mixture, rows, members, indptr, n_threads), one)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_factors", [0, 3])
def test_all_joints_are_those_of_all_pairs(n_factors: int, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, however rows are cut, with components that are computed in float64, too."""
    monkeypatch.setattr(evaluation, "_CACHED_BYTES", 64 * 4 * 13)  # 13 rows at once
    mixture = make_mixture(6, 64, n_factors, dtype="float32")
    narrow = mixture.noise_variances.copy()
    narrow[2:4] *= 1e-4
    mixture = Mixture(mixture.weights, mixture.means, mixture.loadings, narrow)
    rows = read_only(draw(mixture, 101, dtype="float32"))
    cores = Cores(n_threads)
    packed = pack_mixture(mixture, cores)
    assert not n_factors or (packed.precise_slot >= 0).any()
    members, indptr = grouped(np.repeat(np.arange(6), 101), np.tile(np.arange(101), 6), 6)
    for buffers in (None, BufferPool()):
        joints = evaluation.evaluate_all_joints(rows, packed, cores, buffers)
        np.testing.assert_array_equal(joints.ravel(), evaluate(mixture, rows, members, indptr))
