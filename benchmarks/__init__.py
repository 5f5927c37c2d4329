"""What is fast, against what, in one run: ratios, because machines are shared and their clocks change."""
