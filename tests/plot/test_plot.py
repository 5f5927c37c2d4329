"""Pictures hold what they say: the axes that are expected, with the numbers of the model, the rows or the run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.samples import draw, make_mixture
from tests.service.test_history import RECORDS
from vmfa_dask import MixtureModel, plot


def make_model(shape: tuple[int, ...], n_factors: int = 2, n_components: int = 6) -> MixtureModel:
    mixture = make_mixture(n_components, int(np.prod(shape)), n_factors, dtype="float32")
    return MixtureModel.of(replace(mixture, feature_shape=shape))


MODEL = make_model((4, 6))
ROWS = draw(MODEL, 50, dtype="float32").reshape(50, 4, 6)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_components_show_means_and_factors() -> None:
    figure = plot.components(MODEL, data_range=(-10, 10))
    order = np.argsort(-MODEL.weights)
    assert [axes.get_label() for axes in figure.axes] == [str(c) for c in order]
    assert texts(figure)[0] == "6 of 6 components, sorted by weight"
    heaviest, axes = order[0], figure.axes[0]
    assert axes.texts[0].get_text() == f"{MODEL.weights[heaviest]:.2%}"
    strip = axes.images[0].get_array()
    up = 96 // 6  # pixels of the picture per pixel of an image, of which the first one is the mean
    mean = strip[:: up, : 6 * up : up, 0]
    np.testing.assert_allclose(mean, np.clip(MODEL.component_means[heaviest] / 20 + 0.5, 0, 1), atol=1 / 255)
    # The first factor explains the most: its red and blue reach the ends of the map.
    loadings = MODEL.loadings[heaviest].astype(np.float64)
    _, lengths, axes_of_factors = np.linalg.svd(loadings, full_matrices=False)
    first = (lengths[0] * axes_of_factors[0]).reshape(4, 6)
    first = first * np.sign(first.sum())
    start = 7 * up
    red = matplotlib.colormaps["RdBu_r"](0.5 + 0.5 * first / np.abs(lengths[:, None] * axes_of_factors).max())
    np.testing.assert_allclose(strip[::up, start : start + 6 * up : up], red[..., :3], atol=1e-6)
    assert strip.shape == (4 * up, (18 + 1) * up + up // 4, 3)


@pytest.mark.parametrize(("shape", "n_factors"), [((5, 4, 3), 2), ((5, 4, 1), 0), ((100, 120), 1), ((4, 6), 12)])
def test_components_of_other_images(shape: tuple[int, ...], n_factors: int) -> None:
    figure = plot.components(make_model(shape, n_factors), n=4)
    assert len(figure.axes) == 4
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert ("factors" in " ".join(texts(figure)[1:])) is (n_factors > 0)


def test_the_lightest_components_are_left_out() -> None:
    weights = np.array([0.5, 0.004, 0.296, 0.2])
    mixture = replace(make_model((4, 6), n_components=4).mixture, weights=weights)
    figure = plot.components(MixtureModel.of(mixture))
    assert [axes.get_label() for axes in figure.axes] == ["0", "2", "3"]


def test_rows_of_lowest_and_highest_density() -> None:
    scores = MODEL.score_samples(ROWS)
    order = np.argsort(scores)
    figure = plot.by_density(MODEL, ROWS, n=3)
    drawn = [*order[:3], *order[:-4:-1]]
    assert len(figure.axes) == 6
    for axes, row in zip(figure.axes, drawn, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), ROWS[row])
        assert float(axes.get_title()) == pytest.approx(scores[row], rel=1e-5)
        assert axes.images[0].get_clim() == (ROWS[drawn].min(), ROWS[drawn].max())
    assert texts(figure) == ["lowest of 50 log-densities (nats)", "highest"]


def test_samples_are_those_of_the_model() -> None:
    figure = plot.samples(MODEL, 3, data_range=(-9, 9), random_state=5)
    for axes, row in zip(figure.axes, MODEL.sample(3, 5)[0], strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), row)
        assert axes.images[0].get_clim() == (-9, 9)
    assert texts(figure) == ["3 samples"]


def test_flat_rows_become_images_of_a_given_shape() -> None:
    flat = MixtureModel.of(replace(MODEL.mixture, feature_shape=(24,)))
    figure = plot.by_density(flat, ROWS.reshape(50, 24), n=1, shape=(4, 6))
    assert figure.axes[0].images[0].get_array().shape == (4, 6)
    assert len(plot.components(flat, shape=(8, 1, 3)).axes) == 6


def test_a_triptych_names_signal_to_noise_ratios() -> None:
    clean = np.full((5, 7, 3), 100, np.uint8)
    figure = plot.triptych(clean, clean + np.uint8(51), clean)
    assert [axes.get_title() for axes in figure.axes] == ["clean", "noisy, 13.98 dB", "denoised, inf dB"]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), 151 / 255)
    with pytest.raises(ValueError, match="expected equal ones"):
        plot.triptych(clean, clean[:4], clean)


def test_a_history_shows_the_passes_by_phase() -> None:
    training = [replace(RECORDS[1], iteration=k, free_energy=-7 + 0.1 * k) for k in range(1, 6)]
    records = [RECORDS[0], *training, replace(RECORDS[2], iteration=6)]
    figure = plot.history(records)
    axes, enlarged = figure.axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [record.free_energy for record in records])
    assert [(c.get_label(), len(c.get_offsets())) for c in axes.collections[:3]] == [
        ("warm-up", 1),
        ("training", 5),
        ("final", 1),
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["warm-up", "training", "final"]
    np.testing.assert_array_equal(enlarged.lines[0].get_xdata(), [3, 4, 5, 6])
    assert len(plot.history(RECORDS).axes) == 1
    with pytest.raises(ValueError, match="no records"):
        plot.history([])


def test_what_cannot_be_drawn_is_refused() -> None:
    flat = MixtureModel.of(make_mixture(2, 12, 1))
    for function in (plot.components, plot.samples, lambda model: plot.by_density(model, np.zeros((3, 12)))):
        with pytest.raises(ValueError, match=r"rows of shape \(12,\) are no images: .*; name the shape .* by shape="):
            function(flat)
    with pytest.raises(ValueError, match=r"shape=\(4, 4\): expected the 12 features of a row as the pixels"):
        plot.components(flat, shape=(4, 4))
    with pytest.raises(ValueError, match=r"shape=\(2, 3, 2\) are no images"):
        plot.components(flat, shape=(2, 3, 2))
    with pytest.raises(ValueError, match="n=0: expected at least 1"):
        plot.components(MODEL, n=0)
    with pytest.raises(ValueError, match=r"data_range=\(1.0, 0.0\): expected the values of black and white"):
        plot.components(MODEL, data_range=(1, 0))


@pytest.mark.slow
def test_drawing_uses_no_pyplot_and_asks_for_its_extra() -> None:
    code = (
        "import sys, numpy as np; from vmfa_dask import plot;"
        "z = np.zeros((4, 4)); plot.triptych(z, z, z)._repr_png_();"
        "assert 'matplotlib.pyplot' not in sys.modules;"
        "[sys.modules.pop(name) for name in [*sys.modules] if name.startswith('vmfa_dask')];"
        "sys.modules['matplotlib'] = None\n"
        "try:\n    from vmfa_dask import plot\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "vmfa_dask.plot draws with matplotlib: pip install 'vmfa_dask[plot]'\n", done.stderr
