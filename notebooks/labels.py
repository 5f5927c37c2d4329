"""Handwritten digits of scikit-learn with names of their axes: from a DataArray to labelled results and pictures."""

import numpy as np
import xarray as xr
from sklearn.datasets import load_digits

from vmfa_dask import fit_local, plot

digits = load_digits()
images = xr.DataArray(digits.images, dims=("sample", "y", "x"), coords={"digit": ("sample", digits.target)})
fit = fit_local(images, n_components=20, n_factors=3)

for digit, labels in fit.model.predict(images).groupby("digit"):  # results know which digit each sample is
    print(digit, "is made by the components", *np.unique(labels))
densities = fit.model.score_samples(images.chunk(sample=500))  # lazy, as the rows are
print(densities.compute().groupby("digit").mean())
print(fit.model.to_xarray(), fit.history_dataset(), sep="\n")
plot.components(fit.model, n=20, data_range=(0, 16)).savefig("components.png")
plot.by_density(fit.model, images, data_range=(0, 16)).savefig("by_density.png")
plot.history(fit).savefig("history.png")
