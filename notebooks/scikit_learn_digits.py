"""Density of handwritten digits in scikit-learn: a pipeline, and a search by held-out likelihood."""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from vmfa_dask import MixtureOfFactorAnalyzers

digits = load_digits().data.astype("float32")
pipeline = make_pipeline(PCA(16, random_state=0), MixtureOfFactorAnalyzers(n_factors=2))
search = GridSearchCV(pipeline, {"mixtureoffactoranalyzers__n_components": [1, 5, 20]}, cv=3).fit(digits)
print("components, and mean held-out log-likelihood in nats:")
for n_components, score in zip([1, 5, 20], search.cv_results_["mean_test_score"], strict=True):
    print(f"{n_components:3d} {score:8.2f}")
mixture = search.best_estimator_[-1]
print(mixture.model_)
