"""Dense float64 definitions that kernels and algorithm are compared with; nothing here is fast."""
