"""The two pictures of the demo: components with their factors, and the free energy over the passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from vmfa_dask import IterationRecord, MixtureModel

Image = NDArray[np.float64]

BLUE, ORANGE, GREY = "#1f5fa8", "#d97706", "#5f6b7a"
COLUMNS, ROWS = 3, 14
# Lighter components stand for single odd patches and have hardly any factors to show.
SMALLEST_WEIGHT = 5e-4
UPSCALED = 8


def principal_factors(loadings: NDArray[np.floating]) -> Image:
    """Rotate the loadings of a component to their principal axes.

    Factors are determined only up to a rotation; after this one the first explains the most variance.

    Parameters
    ----------
    loadings : (H, D) array
        Of one component.

    Returns
    -------
    (H, D) float64 array
        Factors, the longest first, with positive sums.
    """
    _, lengths, axes = np.linalg.svd(loadings.astype(np.float64), full_matrices=False)
    factors = lengths[:, None] * axes
    signs: Image = np.where(factors.sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    return signs * factors


def component_strip(mean: Image, factors: Image) -> Image:
    """Draw the mean of a component in grey and its factors in colour, side by side with white gaps.

    Parameters
    ----------
    mean : (h, w) array
        Grey levels of 0 to 255.
    factors : (H, h, w) array
        Positive and negative values.

    Returns
    -------
    (height, width, 3) float64 array
        An RGB picture of values 0 to 1.
    """
    scale = max(np.abs(factors).max(), 1.0)  # a component that owns a single patch has no factors
    tiles = [plt.colormaps["gray"](mean / 255.0)]
    tiles += [plt.colormaps["RdBu_r"](0.5 + 0.5 * factor / scale) for factor in factors]
    large = [np.kron(tile[..., :3], np.ones((UPSCALED, UPSCALED, 1))) for tile in tiles]
    gaps = [0, 2 * UPSCALED] + [UPSCALED // 2] * (len(large) - 2)
    padded = [
        np.pad(tile, ((0, 0), (gap, 0), (0, 0)), constant_values=1.0) for tile, gap in zip(large, gaps, strict=True)
    ]
    return np.concatenate(padded, axis=1)


def draw_components(model: MixtureModel, folder: Path) -> Path:
    """Draw means and factors of components, evenly spaced over all but the lightest.

    Parameters
    ----------
    model : MixtureModel
        Of patches.
    folder : path
        Folder of the picture.

    Returns
    -------
    path
        ``components.png``.
    """
    common = [c for c in np.argsort(-model.weights, kind="stable") if model.weights[c] >= SMALLEST_WEIGHT]
    count = min(COLUMNS * ROWS, len(common))
    chosen = [common[k] for k in np.linspace(0, len(common) - 1, count).astype(int)]
    figure, axes = plt.subplots(ROWS, COLUMNS, figsize=(13, 11.2))
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.01, top=0.925, wspace=0.14, hspace=0.1)
    for axis in axes.flat:
        axis.axis("off")
    for axis, c in zip(axes.T.flat, chosen, strict=False):
        factors = principal_factors(model.loadings[c]).reshape(-1, *model.feature_shape)
        axis.imshow(component_strip(model.component_means[c], factors), interpolation="nearest")
        axis.text(
            -0.02,
            0.5,
            f"{model.weights[c]:.2%}",
            transform=axis.transAxes,
            ha="right",
            va="center",
            fontsize=9,
            color=GREY,
        )
    figure.text(0.5, 0.972, f"{count} of {model.n_components} components, sorted by weight", ha="center", fontsize=16)
    figure.text(
        0.5,
        0.945,
        "weight · mean · factors, the longest first (red and blue change in opposite directions; "
        "one colour scale per component)",
        ha="center",
        fontsize=10.5,
        color=GREY,
    )
    path = folder / "components.png"
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)
    return path


def draw_free_energy(history: Sequence[IterationRecord], folder: Path) -> Path:
    """Draw the free energy per pass with warm-up and training marked; an inset enlarges the second half.

    Parameters
    ----------
    history : sequence of IterationRecord
        The passes of a fit.
    folder : path
        Folder of the picture.

    Returns
    -------
    path
        ``free_energy.png``.
    """
    figure, axis = plt.subplots(figsize=(9, 5.5))
    _draw_curve(axis, history, 5)
    warm_up = sum(record.phase == "warm-up" for record in history)
    axis.axvspan(-0.5, warm_up - 0.5, color=ORANGE, alpha=0.12, linewidth=0)
    for left, name, color in ((-0.5, "warm-up", ORANGE), (warm_up - 0.5, "training", BLUE)):
        axis.text(left + 0.2, 1.015, name, transform=axis.get_xaxis_transform(), color=color, va="bottom", fontsize=11)
    axis.set_xlabel("pass over the rows")
    axis.set_ylabel("free energy per patch (nats)")
    # The first passes gain so much that the whole range hides the later gains.
    inset = axis.inset_axes((0.44, 0.13, 0.53, 0.5))
    _draw_curve(inset, history[len(history) // 2 :], 4)
    inset.set_title("second half, enlarged (○ final evaluation)", fontsize=9.5, color=GREY)
    inset.tick_params(labelsize=8)
    axis.indicate_inset_zoom(inset, edgecolor=GREY)
    path = folder / "free_energy.png"
    figure.savefig(path, dpi=120, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    return path


def _draw_curve(axis: Axes, history: Sequence[IterationRecord], size: float) -> None:
    axis.plot(
        [record.iteration for record in history],
        [record.free_energy for record in history],
        color=GREY,
        linewidth=1.2,
        zorder=1,
    )
    for phase, face, edge in (("warm-up", ORANGE, ORANGE), ("training", BLUE, BLUE), ("final", "white", BLUE)):
        points = [(record.iteration, record.free_energy) for record in history if record.phase == phase]
        if points:
            x, y = zip(*points, strict=True)
            axis.scatter(x, y, s=size**2, facecolor=face, edgecolor=edge, zorder=2)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color=GREY, alpha=0.15)
