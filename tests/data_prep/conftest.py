"""Images that several tests share."""

from __future__ import annotations

import pytest

from tests.data_prep.image_files import encoded, noise


@pytest.fixture
def five_images() -> dict[str, bytes]:
    """Images by name; sorted by path, which is not the order of their seeds."""
    return {name: encoded(noise(seed)) for seed, name in enumerate(["a/0.png", "a/1.png", "b.png", "c/0.png", "d.png"])}
