"""A photograph of scikit-image with noise, denoised by a mixture of its own patches."""

import numpy as np
from PIL import Image
from skimage.data import camera
from skimage.metrics import peak_signal_noise_ratio

from vmfa_dask import denoise

clean = camera()[60:220, 160:320].astype(np.float32)  # part of a photograph, grey levels from 0 to 255
noisy = clean + np.random.default_rng(0).normal(0, 25, clean.shape).astype(np.float32)
images = {"noisy": noisy, "denoised": denoise(noisy, n_components=200)}
for name, image in images.items():
    print(f"{name}: {peak_signal_noise_ratio(clean, np.clip(image, 0, 255), data_range=255):.1f} dB")
row = np.concatenate([clean, *images.values()], axis=1)
Image.fromarray(np.clip(np.rint(row), 0, 255).astype(np.uint8)).save("denoised.png")
