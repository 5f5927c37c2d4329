"""What a process computes with: threads, buffers, clocks. May import: numpy, values."""
