"""Digits of scikit-learn: complete their lower halves, draw new ones, and find what is no digit."""

import numpy as np
from sklearn.datasets import load_digits

from vmfa_dask import fit_local

images = load_digits().images  # (1797, 8, 8), grey levels from 0 to 16
train, test = images[:1400], images[1400:]
model = fit_local(train, n_components=20, n_factors=5).model

lower = np.zeros((8, 8), bool)
lower[4:] = True
errors = [np.sqrt(np.mean((guess - test)[:, 4:] ** 2)) for guess in (model.complete(test, lower), train.mean(axis=0))]
print(f"lower halves: off by {errors[0]:.1f} grey levels when completed, by {errors[1]:.1f} as the mean of all digits")

drawn, _ = model.sample(200)
threshold = model.outlier_threshold(test, false_positive_rate=0.05)
for name, rows in {"drawn": drawn, "upside down": test[:, ::-1]}.items():
    print(f"outliers among those {name}: {model.is_outlier(rows, threshold).mean():.0%}")
