"""Pictures of models, runs and images as figures of matplotlib (extra ``plot``).

Each function returns a `Picture`: a ``matplotlib.figure.Figure`` to change, to save by its ``savefig``, or to leave to
a notebook, which shows it. No state of pyplot is used or changed. May import: plot, matplotlib.

Examples
--------
>>> import numpy as np
>>> from vmfa_dask import MixtureModel, plot
>>> model = MixtureModel([1.0], np.zeros((1, 6)), np.ones((1, 2, 6)), np.ones((1, 6)), feature_shape=(2, 3))
>>> figure = plot.components(model)
>>> len(figure.axes)
1
"""

from __future__ import annotations

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("vmfa_dask.plot draws with matplotlib: pip install 'vmfa_dask[plot]'") from error

from vmfa_dask.plot.mixtures import components, samples
from vmfa_dask.plot.picture import Picture
from vmfa_dask.plot.rows import by_density, triptych
from vmfa_dask.plot.runs import history

__all__ = ["Picture", "by_density", "components", "history", "samples", "triptych"]
