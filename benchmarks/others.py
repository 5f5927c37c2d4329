"""scikit-learn on the same rows and cores, at a size that it can handle."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.images import photograph_patches
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.run.settings import PAPER
from vmfa_dask.values import Mixture


def kmeans_fa(
    rows: np.ndarray, test: np.ndarray, n_components: int, n_factors: int, seed: int = 0
) -> tuple[float, int]:
    """Run k-means, then a factor analyzer per cluster (paper, appendix on algorithms).

    Both by scikit-learn with its defaults. A `MixtureModel` of the same parameters does the scoring, as scikit-learn
    would form the inverse covariance (D, D) of every cluster.

    Parameters
    ----------
    rows : (N, D) float array
        Training rows.
    test : (M, D) float array
        Test rows.
    n_components : int
        Number of clusters.
    n_factors : int
        H of each factor analyzer.
    seed : int
        Random state of both.

    Returns
    -------
    nll : float
        Mean negative log-density per test row, in nats.
    n_passes : int
        Number of passes of k-means.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import FactorAnalysis

    clusters = KMeans(n_components, random_state=seed).fit(rows)
    d = rows.shape[1]
    counts = np.bincount(clusters.labels_, minlength=n_components)
    means, loadings = np.zeros((n_components, d)), np.zeros((n_components, n_factors, d))
    noise = np.ones((n_components, d))
    for c in np.flatnonzero(counts):
        members = rows[clusters.labels_ == c].astype(np.float64)
        means[c], noise[c] = members.mean(axis=0), members.var(axis=0)
        if counts[c] > n_factors:
            model = FactorAnalysis(n_factors, random_state=seed).fit(members)
            loadings[c], noise[c] = model.components_, model.noise_variance_
    noise = np.maximum(noise, PAPER["reg_covar"])
    return -MixtureModel.of(Mixture(counts / len(rows), means, loadings, noise)).score(test), int(clusters.n_iter_)


def run(quick: bool = False) -> None:
    """Print seconds and test NLL of three ways to fit a mixture to 8 x 8 grey patches.

    Parameters
    ----------
    quick : bool
        Tiny sizes.
    """
    from sklearn.mixture import GaussianMixture

    n, c, h = (2000, 10, 5) if quick else (40_000, 60, 5)
    patches = photograph_patches(n + n // 4, 8).mean(axis=3).reshape(-1, 64)
    noise = np.random.default_rng(2).uniform(-0.5, 0.5, patches.shape)
    rows, test = np.split(patches + noise, [n])
    print(f"mixtures of {c} components on {n} patches of 64 features (float64 rows)")

    def full() -> float:
        model = GaussianMixture(c, covariance_type="full", tol=1e-4, max_iter=200, reg_covar=1e-3, random_state=0)
        return -float(model.fit(rows).score(test))

    fit_local(rows[:500], n_components=4, n_factors=h, max_iter=1)
    ways = {
        "vmfa_dask (v-MFA)": lambda: -fit_local(rows, n_components=c, n_factors=h).model.score(test),
        "scikit-learn GaussianMixture(full)": full,
        "scikit-learn KMeans + FactorAnalysis": lambda: kmeans_fa(rows, test, c, h)[0],
    }
    base = 0.0
    for name, way in ways.items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns when it stops at max_iter
            nll = way()
        elapsed = time.perf_counter() - begin
        base = base or elapsed
        print(f"  {name:38s} {elapsed:7.1f} s  ({elapsed / base:6.1f} x)   test NLL {nll:9.3f}", flush=True)
