"""Fits with very many components: seconds of a pass and its parts, memory, and what they grow with."""
