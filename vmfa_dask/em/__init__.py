"""EM as mathematics: values in, values out. May import: values, kernels, runtime, em."""
