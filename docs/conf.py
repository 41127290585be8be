"""Settings of Sphinx for the site: ``make docs``. Nothing is fetched while it is built, nor when it is read."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

project = "Strand"
author = "the authors of Strand"
release = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
html_title = f"Strand {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docstrings"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
# Blocks without a language show commands and what they print.
highlight_language = "text"

# The anchors of headings are those of GitHub, so a link holds in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_typehints = "none"  # the docstrings say what an argument is
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
nitpicky = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["strand.css"]
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8a", "color-brand-content": "#0b5c8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc0ee", "color-brand-content": "#6cc0ee"},
}


def setup(app: Sphinx) -> None:
    """Called by Sphinx: blocks of CSV have no colours."""
    app.add_lexer("csv", TextLexer)
