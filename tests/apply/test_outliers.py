"""Thresholds from held-out rows: no more of them are below it than was asked for, and far rows are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples import make_mixture
from vmfa_dask import MixtureModel


def test_share_of_normal_rows_below_the_threshold() -> None:
    model = MixtureModel.of(make_mixture(4, 6, 1, dtype="float32"))
    normal, new = model.sample(5000)[0], model.sample(20_000, random_state=1)[0]
    for rate in (0.01, 0.29):
        threshold = model.outlier_threshold(normal, rate)
        assert model.is_outlier(normal, threshold).sum() == round(rate * 5000)
        share = model.is_outlier(new, threshold).mean()
        assert abs(share - rate) < 5 * np.sqrt(rate * (1 - rate) * (1 / 5000 + 1 / 20_000))
    assert model.is_outlier(normal[:3] + 100, threshold).all()


def test_ties_are_no_outliers() -> None:
    model = MixtureModel.of(make_mixture(2, 3, 1))
    same = np.ones((100, 3))
    assert not model.is_outlier(same, model.outlier_threshold(same, 0.5)).any()


@pytest.mark.parametrize(
    ("rate", "message"), [(0.0, "above 0 and below 1"), (1.0, "above 0"), (0.005, "is less than one row")]
)
def test_rates_are_checked(rate: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureModel.of(make_mixture(2, 3, 1)).outlier_threshold(np.ones((100, 3)), rate)
