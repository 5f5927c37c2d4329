"""The paper's experiments, each one command: ``python -m benchmarks.paper.NAME [--images FOLDER] [--quick]``.

They write a table (CSV) and a figure (PNG) to a folder; ``docs/results/README.md`` sets them beside the paper's.
"""
