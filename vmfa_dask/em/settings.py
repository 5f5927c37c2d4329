"""The numbers that define a run: the paper's symbols with the field's names, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INITIALIZERS = ("afkmc2", "uniform", "k-means++", "k-means+fa", "noise")
COVARIANCES = ("mfa", "diagonal", "isotropic")
NOISES = ("component", "shared")
SEARCHES = ("guided", "exhaustive")
SIMILARITIES = ("kl", "joint")
EMPTY = ("drop", "split")
PRECISIONS = ("float32", "float64")
_CHOICES = {
    "covariance_type": COVARIANCES,
    "noise": NOISES,
    "learn_weights": (True, False),
    "standardize": (True, False),
    "search": SEARCHES,
    "similarity": SIMILARITIES,
    "empty_components": EMPTY,
    "init_params": INITIALIZERS,
    "precision": PRECISIONS,
}


def _require(ok: bool, name: str, value: Any, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value!r}: expected {expected}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Settings:
    """What is trained, and until when. Defaults are those of the paper.

    Parameters
    ----------
    n_components : C, number of mixture components
    n_factors : H >= 0, columns of each loading matrix; 0 is a mixture with diagonal covariances
    covariance_type : "mfa" (low rank and diagonal), "diagonal" or "isotropic"; the latter two have no factors
    noise : "component" (each component has noise variances of its own) or "shared" (all have the same)
    learn_weights : False leaves the mixing proportions as they were in the beginning, equal unless a start is given
    truncation : C', components kept per row; values above C are refused
    search : "guided" (each row is compared with the neighbours of its kept components) or "exhaustive" (with all
        components: EM with truncated posteriors, and exact EM where C' = C; no warm-up)
    similarity : how guided search finds the neighbours of a component: "kl" by the estimated Kullback-Leibler
        divergence (paper, eq. deltaF), "joint" by mean log-joints (paper, eq. euclidean_distance)
    empty_components : what becomes of a component that no row keeps: "drop" leaves it out from then on, "split" gives
        it half of another one that is drawn by its weight (paper, ablation on initialisation)
    neighborhood : G, how many neighbours (itself included) a kept component proposes; clipped to C. One size per rank,
        such as ``(15, 5, 5)``, lets the component that explains a row best propose more than the others.
    search_every : R; a row whose kept components came out of a search unchanged is evaluated on them alone and searched
        again in every R-th pass, until they change. 1 searches every row in every pass, as in the paper.
    random_candidates : uniform components added to each search space (1 in the paper)
    tol, warmup_tol : relative change of the free energy that ends training and warm-up (paper, convergence criterion)
    max_iter, max_warmup_iter : most iterations of training and of warm-up
    standardize : True trains as on features that are shifted to mean 0 and scaled to variance 1 (by a pass over the
        rows that seeding makes anyway): distances between seeds, first loadings, `reg_covar` and what "isotropic" means
        are in units of each feature's standard deviation. The model is in units of the data all the same.
    reg_covar : smallest noise variance, in squared units of the data, or of the variance of a feature (`standardize`)
    init_params : "afkmc2", "uniform", "k-means++" (C passes over the rows), "k-means+fa" (k-means from "afkmc2" seeds,
        then a factor analyzer in each cluster; both end by `tol`, and each pass of k-means costs N·C distances) or
        "noise" (means anywhere in the range of the data); the paper's ablation on initialisation compares them
    chain_length : length of the Markov chains of AFK-MC²
    random_state : seed; every draw is a hash of it
    precision : "float32" (parameters and kernels; sums over rows are float64) or "float64"

    Raises
    ------
    ValueError
        Naming the argument, the value and what is allowed.
    """

    n_components: int
    n_factors: int = 5
    covariance_type: str = "mfa"
    noise: str = "component"
    learn_weights: bool = True
    truncation: int = 3
    search: str = "guided"
    similarity: str = "kl"
    empty_components: str = "drop"
    neighborhood: int | tuple[int, ...] = 15
    search_every: int = 1
    random_candidates: int = 1
    tol: float = 1e-4
    warmup_tol: float = 1e-4
    max_iter: int = 200
    max_warmup_iter: int = 50
    standardize: bool = False
    reg_covar: float = 1e-3
    init_params: str = "afkmc2"
    chain_length: int = 10
    random_state: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        lowest = {
            "n_components": 1,
            "n_factors": 0,
            "truncation": 1,
            "search_every": 1,
            "random_candidates": 0,
            "max_iter": 0,
            "max_warmup_iter": 0,
            "chain_length": 1,
            "random_state": 0,
        }
        for name, low in lowest.items():
            value = getattr(self, name)
            _require(_is_integer(value) and value >= low, name, value, f"an integer >= {low}")
        _require(self.random_state < 2**63, "random_state", self.random_state, "an integer below 2**63")
        for name in ("tol", "warmup_tol"):
            value = getattr(self, name)
            _require(isinstance(value, int | float) and 0 <= value < 1, name, value, "a number in [0, 1)")
        positive = isinstance(self.reg_covar, int | float) and 0 < self.reg_covar < float("inf")
        _require(positive, "reg_covar", self.reg_covar, "a positive number")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            _require(value in allowed, name, value, f"one of {allowed}")
        _require(
            self.covariance_type == "mfa" or self.n_factors == 0,
            "n_factors",
            self.n_factors,
            f"0 with covariance_type={self.covariance_type!r}, which has no factors",
        )
        _require(
            self.truncation <= self.n_components,
            "truncation",
            self.truncation,
            f"at most n_components={self.n_components}",
        )
        object.__setattr__(self, "neighborhood", self._clipped_neighborhood())

    def _clipped_neighborhood(self) -> int | tuple[int, ...]:
        """G, or the sizes by rank, none above C."""
        value, c = self.neighborhood, self.n_components
        if isinstance(value, list | tuple):
            ranks = len(value) == self.truncation and all(_is_integer(size) and size >= 1 for size in value)
            _require(
                ranks, "neighborhood", value, f"integers >= 1, one for each of the truncation={self.truncation} ranks"
            )
            return tuple(min(size, c) for size in value)
        _require(_is_integer(value) and value >= 1, "neighborhood", value, "an integer >= 1, or one for each rank")
        return min(value, c)

    @property
    def neighborhoods(self) -> tuple[int, ...]:
        """Neighbours that each kept component proposes, by rank, (C',)."""
        return self.neighborhood if isinstance(self.neighborhood, tuple) else (self.neighborhood,) * self.truncation

    @property
    def warmup_passes(self) -> int:
        """Most passes of warm-up: what it learns, neighbours and kept components, is of no use to exhaustive search."""
        return 0 if self.search == "exhaustive" else self.max_warmup_iter

    @property
    def graph_size(self) -> int:
        """Size of the sets g_c: the largest neighbourhood."""
        return max(self.neighborhoods)

    @property
    def search_size(self) -> int:
        """S, the most candidates that a row can have."""
        if self.search == "exhaustive":
            return self.n_components
        return min(self.n_components, sum(self.neighborhoods) + self.random_candidates)

    @property
    def most_candidates(self) -> int:
        """Most components that a row is compared with at once, on the way to the start included."""
        return self.n_components if self.init_params == "k-means+fa" else self.search_size

    def check_against(self, n_rows: int, n_features: int) -> None:
        """Refuse what cannot be trained on rows of this number and width.

        Raises
        ------
        ValueError
            Naming both numbers.
        """
        if n_rows < self.n_components:
            raise ValueError(
                f"n_components={self.n_components}: the data has only {n_rows} rows; every component needs at least one"
            )
        if self.n_factors >= n_features and self.n_factors > 0:
            raise ValueError(
                f"n_factors={self.n_factors}: expected 0 to {n_features - 1} for rows of {n_features} features"
            )
