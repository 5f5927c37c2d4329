"""The numbers that define a run: the paper's symbols with the field's names, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from vmfa_dask.run.choices import CHOICES, LOWEST, SEED_ROWS
from vmfa_dask.run.numbers import plain

# The settings of the paper's experiments, where the defaults differ: everything in the units of the data as they are.
PAPER: Mapping[str, Any] = MappingProxyType(
    {
        "standardize": False, "reg_covar": 1e-3, "tol": 1e-4, "warmup_tol": 1e-4, "init_params": "afkmc2", "n_init": 1,
        "locality": False, "screening": False,
    }
)  # fmt: skip
# Floor and tolerances where features are standardized, and in the units of the data as they are.
_REG_COVAR = {True: 3e-5, False: 1e-3}
_TOLERANCE = {True: 5e-4, False: 1e-4}
# Components from which on a run begins with cells of its seeds.
_MANY_COMPONENTS = 2_000


def _require(ok: bool, name: str, value: Any, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value!r}: expected {expected}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Settings:
    """What to train, and until when.

    Sizes of searches are the paper's. The defaults do not depend on the units of the data: multiplying a feature by a
    constant changes densities by that constant and nothing else. ``Settings.paper(...)`` (in a fit,
    ``preset="paper"``) has the paper's own numbers.

    Parameters
    ----------
    n_components : int
        C, number of mixture components.
    n_factors : int
        H, columns of each loading matrix; 0 trains a mixture with diagonal covariances. By default 5, and 0 where the
        covariance type has no factors.
    covariance_type : {"mfa", "diagonal", "isotropic"}
        Low rank and diagonal, diagonal, or one variance; the latter two have no factors.
    noise : {"component", "shared"}
        Whether each component has its own noise variances, or all share them.
    learn_weights : bool
        False keeps the mixing proportions at their first values, which are equal unless a start is given.
    truncation : int
        C', components kept per row, at most C. By default 3 (C where there are fewer), and C with exhaustive search,
        which is exact EM then.
    search : {"guided", "exhaustive"}
        Compare rows with neighbours of their kept components, or with all (EM with truncated posteriors; no warm-up).
    similarity : {"kl", "joint"}
        Measure by which guided search finds the neighbours of a component: the estimated Kullback-Leibler divergence
        (paper, eq. deltaF), or mean log-joints (paper, eq. euclidean_distance).
    empty_components : {"drop", "split"}
        Leave out components that lose their rows, or give each half of another one that is drawn by its weight (paper,
        ablation on initialisation).
    neighborhood : int or tuple of int
        G, neighbours that a kept component proposes, itself included; clipped to C. One size per rank, such as
        ``(15, 5, 5)``, lets the best component of a row propose more than the others.
    search_every : int
        R; a row whose kept components came out of a search unchanged is evaluated on them alone, and searched again in
        every R-th pass. 1 searches every row in every pass, as in the paper.
    screening : bool
        Rank the candidates of a row by a quarter of the features, another one in each pass, and evaluate on all
        features the C' + 2 best and the kept components. Needs 256 features; the default of a fit from 1,024 on.
    random_candidates : int
        Uniform components added to each search space (1 in the paper).
    tol, warmup_tol : float
        Smallest gain of the free energy per pass that continues training and warm-up: in nats per row and feature
        (default 5e-4), or without `standardize` relative to the free energy (default 1e-4; paper, convergence
        criterion).
    max_iter, max_warmup_iter : int
        Most passes of training and of warm-up.
    standardize : bool
        Measure each feature in units of its own spread (see `seeding.survey`), which a pass over the rows finds:
        distances between seeds, first loadings, `reg_covar`, `tol` and the meaning of "isotropic". The model stays in
        the units of the data. False takes the data as they are.
    reg_covar : float
        Smallest noise variance: a share of the variance of each feature (default 3e-5, at least what its recorded steps
        allow, see `seeding.survey`), or without `standardize` in squared units of the data (default 1e-3).
    init_params : {"pilot", "afkmc2", "uniform", "k-means++", "k-means+fa", "noise"}
        "pilot": short runs on a sample of the rows, for few components (see `run.starts.pilot`). "afkmc2": AFK-MC²
        seeds. "uniform": random rows. "k-means++": C passes over the rows. "k-means+fa": k-means from AFK-MC² seeds,
        then a factor analyzer per cluster; both end by `tol`, and a pass of k-means costs N·C distances. "noise": means
        anywhere in the range of the data. The paper's ablation on initialisation compares all but the first. A fit
        chooses "pilot" by default where the model is small, "afkmc2" elsewhere.
    n_init : int
        Initialisations that are tried in short runs; the one with the largest free energy is trained on.
    chain_length : int
        Length of the Markov chains of AFK-MC².
    locality : bool
        Begin with neighbours that are near: seeds are grouped into cells (see `seeding.cells`), and kept components and
        neighbours come from the cell of a row and of a component, not from a draw. Rows are copied into the order of
        their cells, unless `n_init` is above 1. By default with guided search from 2,000 components on; of use where
        seeds are rows ("afkmc2", "uniform", "k-means++").
    random_state : int
        Seed; every draw is a hash of it.
    precision : {"float32", "float64"}
        Dtype of parameters and kernels; sums over rows are float64 in any case.

    Raises
    ------
    ValueError
        Naming the argument, the value and what is allowed.
    """

    n_components: int
    n_factors: int = None  # type: ignore[assignment]  # numbers whose default depends on others are set below
    covariance_type: str = "mfa"
    noise: str = "component"
    learn_weights: bool = True
    truncation: int = None  # type: ignore[assignment]
    search: str = "guided"
    similarity: str = "kl"
    empty_components: str = "drop"
    neighborhood: int | tuple[int, ...] = 15
    search_every: int = 1
    screening: bool = None  # type: ignore[assignment]
    random_candidates: int = 1
    tol: float = None  # type: ignore[assignment]
    warmup_tol: float = None  # type: ignore[assignment]
    max_iter: int = 200
    max_warmup_iter: int = 50
    standardize: bool = True
    reg_covar: float = None  # type: ignore[assignment]
    init_params: str = "afkmc2"
    n_init: int = 1
    chain_length: int = 10
    locality: bool = None  # type: ignore[assignment]
    random_state: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        for name, low in LOWEST.items():
            value = getattr(self, name)
            if value is not None or name not in ("n_factors", "truncation"):  # set below where they are left out
                _require(_is_integer(value) and value >= low, name, value, f"an integer >= {low}")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            left_out = value is None and name in ("locality", "screening")  # set below
            _require(left_out or value in allowed, name, value, f"one of {allowed}")
        for name, value in self._defaults().items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        _require(self.random_state < 2**63, "random_state", self.random_state, "an integer below 2**63")
        for name in ("tol", "warmup_tol"):
            value = getattr(self, name)
            _require(_is_number(value) and 0 <= value < 1, name, value, "a number in [0, 1)")
        positive = _is_number(self.reg_covar) and 0 < self.reg_covar < float("inf")
        _require(positive, "reg_covar", self.reg_covar, "a positive number")
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

    def _defaults(self) -> dict[str, Any]:
        """Numbers that depend on others, where they are left out."""
        kept = self.n_components if self.search == "exhaustive" else min(3, self.n_components)
        return {
            "n_factors": 5 if self.covariance_type == "mfa" else 0,
            "truncation": kept,
            "tol": _TOLERANCE[self.standardize],
            "warmup_tol": _TOLERANCE[self.standardize],
            "reg_covar": _REG_COVAR[self.standardize],
            "screening": False,
            "locality": self.search == "guided" and self.n_components >= _MANY_COMPONENTS,
        }

    @classmethod
    def paper(cls, n_components: int, n_factors: int | None = None, **changes: Any) -> Settings:
        """The settings of the paper's experiments, with changes.

        Parameters
        ----------
        n_components : int
            C.
        n_factors : int, optional
            H.
        **changes : object
            Other settings.

        Returns
        -------
        Settings
        """
        return cls(**{**PAPER, "n_components": n_components, "n_factors": n_factors, **changes})

    def gain(self, free_energy: float, before: float, n_features: int) -> float:
        """What a pass has gained, in the units of `tol`.

        Parameters
        ----------
        free_energy, before : float
            Free energy per row after the pass and after the one before, in nats.
        n_features : int
            D.

        Returns
        -------
        float
        """
        unit = n_features if self.standardize else max(abs(before), 1e-300)
        return (free_energy - before) / unit

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
    def starts_from_cells(self) -> bool:
        """Whether the run begins with cells of its seeds."""
        return self.locality and self.search == "guided" and self.init_params in SEED_ROWS

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

    def check_against(self, n_rows: int, n_features: int, label: str = "") -> None:
        """Refuse settings that cannot be trained on the data.

        Parameters
        ----------
        n_rows, n_features : int
            N and D.
        label : str, optional
            What the rows are called.

        Raises
        ------
        ValueError
            Naming both numbers.
        """
        where = f" ({label})" if label else ""
        if n_rows < self.n_components:
            raise ValueError(
                f"n_components={self.n_components}: the data has only {n_rows} rows{where}; every component needs at "
                "least one"
            )
        if self.n_factors >= n_features and self.n_factors > 0:
            raise ValueError(
                f"n_factors={self.n_factors}: expected 0 to {n_features - 1} for rows of {n_features} features{where}"
            )
