"""How a run begins, as mathematics: survey, seeds, first parameters. May import: values, kernels, runtime, em."""
