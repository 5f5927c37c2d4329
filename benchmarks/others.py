"""scikit-learn on the same rows and cores, at a size that it can do."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.images import photograph_patches
from vmfa_dask import fit_local


def kmeans_fa(
    rows: np.ndarray, test: np.ndarray, n_components: int, n_factors: int, seed: int = 0
) -> tuple[float, int]:
    """k-means, then a factor analyzer per cluster (paper, appendix on algorithms); test NLL, passes of k-means."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import FactorAnalysis

    clusters = KMeans(n_components, random_state=seed).fit(rows)
    labels = clusters.labels_
    scores = np.full((n_components, len(test)), -np.inf)
    for c in range(n_components):
        members = rows[labels == c]
        if len(members) > n_factors + 1:
            model = FactorAnalysis(n_factors, random_state=seed).fit(members)
            scores[c] = model.score_samples(test) + np.log(len(members) / len(rows))
    best = scores.max(axis=0)
    nll = float(-np.mean(best + np.log(np.exp(scores - best).sum(axis=0))))
    return nll, int(clusters.n_iter_)


def run(quick: bool = False) -> None:
    """Seconds and test NLL of three ways to a mixture on 8x8 grey patches."""
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
