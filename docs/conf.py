"""Sphinx settings of the documentation: Markdown through MyST, built with warnings as errors."""

from __future__ import annotations

project = "duplex-sdk"
copyright = "the duplex-sdk contributors"
extensions = ["myst_parser"]
exclude_patterns = ["examples"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = "duplex-sdk"
html_show_sphinx = False
html_copy_source = False
