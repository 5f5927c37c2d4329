"""Labels, posteriors and noise-free versions of handwritten digits, written to stores by a small cluster."""

from dask.distributed import Client
from sklearn.datasets import load_digits

from vmfa_dask import fit_local, infer

digits = load_digits().images.astype("float32")  # (1797, 8, 8)
model = fit_local(digits, n_components=20, n_factors=3, max_iter=20).model
with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    labels = infer(model, digits, "predict", client=client, out="labels.zarr")
    kept = infer(model, digits, "predict_proba", truncation=3, client=client, out="probabilities.zarr")
    clean = infer(model, digits, "reconstruct", client=client, out="clean.zarr")
print("rows of each component:", *(int((labels[:] == c).sum()) for c in range(model.n_components)))
print(f"three components hold {kept['captured'][:].mean():.4f} of the posterior, the best one alone "
      f"{(kept['captured'][:] * kept['probabilities'][:, 0]).mean():.4f}")
print(f"noise that was removed: {((clean[:] - digits) ** 2).mean() ** 0.5:.2f} of 16 grey levels")
