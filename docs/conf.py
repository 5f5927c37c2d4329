"""The site that `make docs` builds from this folder: guide, reference and background."""

from __future__ import annotations

from typing import Any

from pygments.lexers.special import TextLexer

import vmfa_dask

project = "vmfa_dask"
author = copyright = "the vmfa_dask authors"
release = version = vmfa_dask.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]

# Links to headings are those of a forge, so that pages read the same in both places.
myst_heading_anchors = 4

# Docstrings put names of the package and of arguments alike into single backticks; what is no object stays as it is.
default_role = "py:obj"
autosummary_generate = False
autodoc_typehints = "none"  # docstrings state types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # autodoc lists them
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = "vmfa_dask"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False


def escape_shapes(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let the star in shapes such as (n, *feature_shape) be a star, not the start of emphasis."""
    lines[:] = [line.replace(", *feature_shape", r", \*feature_shape") for line in lines]


def setup(app: Any) -> None:
    """Show Mermaid pictures as their text, which forges draw: drawing them here would need a script from elsewhere."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("autodoc-process-docstring", escape_shapes)
