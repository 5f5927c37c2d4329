"""N13: the reported bound and the score are different quantities, and the first never exceeds the second."""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples import draw, make_mixture
from vmfa_dask import Fit, IterationRecord, MixtureModel, fit_local

ROWS = draw(make_mixture(8, 6, 1, spread=1.5), 5000)


def after(iterations: int, truncation: int) -> Fit:
    """The run, stopped after some iterations: its last record is the bound of the parameters that it returns."""
    return fit_local(
        ROWS,
        n_components=8,
        n_factors=1,
        truncation=truncation,
        neighborhood=3,
        precision="float64",
        max_iter=iterations,
        tol=0.0,
        n_groups=2,
    )


@pytest.mark.parametrize("truncation", [2, 8])
@pytest.mark.slow
def test_bound_and_score_of_each_iteration(truncation: int) -> None:
    gaps = []
    for iterations in (0, 1, 2, 4, 8, 16):
        fit = after(iterations, truncation)
        bound, score = fit.history[-1].free_energy, fit.model.score(ROWS)
        assert bound <= score + 1e-12 * abs(score)
        gaps.append(score - bound)
    if truncation == 8:
        np.testing.assert_allclose(gaps, 0, atol=1e-6)
    else:
        assert min(gaps) > 1e-6
    energies = np.array([record.free_energy for record in fit.history])
    assert np.all(np.diff(energies) >= -1e-6 * np.abs(energies[1:]))


def test_documentation_says_which_is_which() -> None:
    assert "lower bound" in str(MixtureModel.__doc__)
    assert "lower bound of `score`" in str(IterationRecord.__doc__)
