"""`MixtureOfFactorAnalyzers`: fits and models in the form of a scikit-learn estimator, for rows in memory.

May import: run, cluster, service, numpy.
"""

from __future__ import annotations

import copy
import warnings
from numbers import Integral
from typing import Any, Literal, Self

from vmfa_dask.cluster.clients import address_of, has_current_client
from vmfa_dask.run.state import TRAINING
from vmfa_dask.service.estimator_input import ROW_DTYPES, repeated_rows, seed_of
from vmfa_dask.service.estimator_results import FittedMixture
from vmfa_dask.service.fit import fit_distributed, fit_local
from vmfa_dask.service.keywords import SettingsKeywords
from vmfa_dask.service.scikit_learn import ConvergenceWarning, validate_data
from vmfa_dask.service.training import Fit
from vmfa_dask.values import Int64


class MixtureOfFactorAnalyzers(FittedMixture):
    """Gaussian mixture with low-rank covariances, as an estimator of scikit-learn.

    Methods and attributes are those of `sklearn.mixture.GaussianMixture` where they mean the same; `transform` gives
    factors. Rows are arrays in memory. `fit_local` and `fit_distributed` train on stores that are larger, keep runs,
    and give the same model.

    Parameters
    ----------
    n_components : int
        C, number of components.
    n_factors : int, optional
        H, columns of each loading matrix. By default 5, fewer where rows have no more than 5 features, and none where
        `covariance_type` has none.
    covariance_type : {"mfa", "diagonal", "isotropic"}
        Low rank and diagonal, diagonal, or one variance.
    tol : float, optional
        Smallest gain of the free energy per pass that continues the training, in nats per feature; by default 5e-4.
    max_iter : int
        Most passes of training.
    reg_covar : float, optional
        Smallest noise variance, relative to the variance of the feature; by default 3e-5.
    init_params : {"pilot", "afkmc2", "uniform", "k-means++", "k-means+fa", "noise"}, optional
        How a fit begins; the default suits the size of the model.
    n_init : int, optional
        Initialisations that are tried; by default 3 for a pilot, 1 otherwise.
    random_state : int, numpy.random.RandomState or None
        Seed of all draws. A `RandomState` is advanced by each fit; None is 0, so that every fit can be repeated.
    warm_start : bool
        Begin the next fit with the model of the last one. Components that were dropped stay dropped.
    preset : {"default", "paper"}
        "paper" has the settings of the paper's experiments.
    verbose : int
        0 shows nothing; 1 shows how a fit goes, as in `fit_distributed`.
    client : distributed.Client, str or cluster, optional
        Cluster that trains, as in `fit_distributed`. "auto" takes the current Dask client if there is one. By default
        fits work in this process. Clones share the client; a pickle has the address of its scheduler instead, or None
        if the client is closed.
    noise, learn_weights, truncation, search, similarity, empty_components, neighborhood, search_every, \
screening, random_candidates, warmup_tol, max_warmup_iter, standardize, chain_length, locality, precision
        Further settings, described in `Settings`; None stands for the default.

    Attributes
    ----------
    model_ : MixtureModel
        The fitted mixture.
    weights_ : (C,) float64 array
        Mixing proportions. C is smaller than `n_components` where components were dropped.
    means_ : (C, D) float64 array
        In the units of the data.
    loadings_ : (C, H, D) array
        In the units of the data.
    noise_variances_ : (C, D) array
        In squared units of the data.
    covariances_ : (C, D, D) float64 array
        Computed on access, up to 128 MiB; ``model_.covariance(c)`` makes one of larger ones.
    converged_ : bool
        Whether the training ended by its tolerance.
    n_iter_ : int
        Passes of training.
    lower_bound_ : float
        Free energy of the model, in nats per row.
    history_ : tuple of IterationRecord
        One record per pass.
    n_features_in_ : int
        D.
    feature_names_in_ : (D,) object array
        Names of the columns, where `fit` has seen a data frame whose columns all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vmfa_dask import MixtureOfFactorAnalyzers
    >>> rows = load_iris().data.astype("float32")
    >>> mixture = MixtureOfFactorAnalyzers(n_components=3, n_factors=1).fit(rows)
    >>> mixture.predict_proba(rows).shape, mixture.transform(rows).shape
    ((150, 3), (150, 1))
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_factors: int | None = None,
        covariance_type: Literal["mfa", "diagonal", "isotropic"] = "mfa",
        tol: float | None = None,
        max_iter: int = 200,
        reg_covar: float | None = None,
        init_params: Literal["pilot", "afkmc2", "uniform", "k-means++", "k-means+fa", "noise"] | None = None,
        n_init: int | None = None,
        random_state: Any = 0,
        warm_start: bool = False,
        preset: Literal["default", "paper"] = "default",
        verbose: int = 0,
        client: Any = None,
        noise: Literal["component", "shared"] = "component",
        learn_weights: bool = True,
        truncation: int | None = None,
        search: Literal["guided", "exhaustive"] = "guided",
        similarity: Literal["kl", "joint"] = "kl",
        empty_components: Literal["drop", "split"] = "drop",
        neighborhood: int | tuple[int, ...] = 15,
        search_every: int = 1,
        screening: bool | None = None,
        random_candidates: int = 1,
        warmup_tol: float | None = None,
        max_warmup_iter: int = 50,
        standardize: bool | None = None,
        chain_length: int = 10,
        locality: bool | None = None,
        precision: Literal["float32", "float64"] = "float32",
    ) -> None:
        self.n_components = n_components
        self.n_factors = n_factors
        self.covariance_type = covariance_type
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.n_init = n_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.preset = preset
        self.verbose = verbose
        self.client = client
        self.noise = noise
        self.learn_weights = learn_weights
        self.truncation = truncation
        self.search = search
        self.similarity = similarity
        self.empty_components = empty_components
        self.neighborhood = neighborhood
        self.search_every = search_every
        self.screening = screening
        self.random_candidates = random_candidates
        self.warmup_tol = warmup_tol
        self.max_warmup_iter = max_warmup_iter
        self.standardize = standardize
        self.chain_length = chain_length
        self.locality = locality
        self.precision = precision

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on rows.

        Parameters
        ----------
        X : array_like of shape (N, D)
            Rows, at least two; float32 and uint8 are trained as they are, other dtypes as float64.
        y : object
            Ignored.
        sample_weight : array_like of shape (N,), optional
            How often each row counts, whole numbers from 0. The fit is that of rows that are repeated as often, in
            their order, and takes their memory.

        Returns
        -------
        MixtureOfFactorAnalyzers
            The estimator itself.

        Raises
        ------
        ValueError
            When rows are not finite numbers, weights no whole numbers, or parameters cannot be trained on the rows.
        TypeError, RuntimeError, MemoryError, OSError
            As `fit_distributed`, where it trains.

        Warns
        -----
        ConvergenceWarning
            When `max_iter` ended the training.
        """
        rows = validate_data(self, X, dtype=ROW_DTYPES, ensure_min_samples=2)
        if isinstance(self.n_factors, Integral) and self.n_factors >= rows.shape[1]:
            raise ValueError(f"n_factors={self.n_factors}: expected fewer than n_features={rows.shape[1]}")
        fit = self._train(repeated_rows(rows, sample_weight))
        self.model_, self.history_, self.converged_ = fit.model, fit.history, fit.converged
        self.n_iter_ = sum(record.phase == TRAINING for record in fit.history)
        self.lower_bound_ = fit.history[-1].free_energy
        self._asked_components = self.n_components
        if not (fit.converged or fit.fell or fit.settings.max_iter == 0):  # of a fall, the fit itself has warned
            warnings.warn(
                f"not converged after max_iter={fit.settings.max_iter} passes; a larger max_iter trains further, with "
                "warm_start=True from this model",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Int64:
        """Train on rows, and find the most probable component of each.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        (N,) int64 array
            Numbers of components; rows of weight 0 get one too.

        Raises
        ------
        ValueError, TypeError, RuntimeError, MemoryError, OSError
            As `fit`.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _train(self, rows: Any) -> Fit:
        keywords = {name: getattr(self, name) for name in SettingsKeywords.__annotations__}
        keywords.update(preset=self.preset, random_state=seed_of(self.random_state), verbose=self.verbose)
        keywords["n_components"] = self.n_components
        if self.warm_start and hasattr(self, "model_"):
            keywords["start"] = self.model_
            if self._asked_components == self.n_components:
                keywords["n_components"] = self.model_.n_components
        automatic = isinstance(self.client, str) and self.client == "auto"
        if self.client is None or (automatic and not has_current_client()):
            return fit_local(rows, **keywords)
        fit: Fit = fit_distributed(rows, client=None if automatic else self.client, **keywords)
        return fit

    def __sklearn_clone__(self) -> Self:
        unconnected = copy.copy(self)
        unconnected.client = None
        clone: Self = super(MixtureOfFactorAnalyzers, unconnected).__sklearn_clone__()
        clone.client = self.client  # not copied: clones train on the same cluster
        return clone

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "client": address_of(self.client)}
