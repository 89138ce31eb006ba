"""Sphinx settings of the documentation: Markdown through MyST, built with warnings as errors."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from docutils.nodes import Element, reference
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "duplex-sdk"
copyright = "the duplex-sdk contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["examples"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3

# Every reference into our own packages must lead somewhere; those into others' have no pages here.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!duplex_).*"),
    # Type variables, and what is private.
    (r"py:.*", r".*\.(S|T|EventT|_\w+)"),
    # Inner types in the signatures of what is public.
    (r"py:.*", r"duplex_sdk\.(protocol\.realtime|session|testing\.conformance)\..*"),
    (r"py:.*", r"duplex_server\.(engine|stages|serving|entrypoints)\..*"),
]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
# Attributes are told once, in the class's own docstring.
napoleon_use_ivar = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "duplex-sdk"
html_show_sphinx = False
html_copy_source = False

REFERENCE = (
    "duplex_sdk.audio",
    "duplex_sdk.stage",
    "duplex_sdk.plugin",
    "duplex_sdk.protocol.duplex",
    "duplex_sdk.clients",
    "duplex_sdk.discovery",
    "duplex_sdk.testing",
    "duplex_server.entrypoints",
    "duplex_server.testing",
)


def show_public_names() -> None:
    """Give autodoc what a running program has: names that are loaded on first use, and types."""
    packages = [import_module(name) for name in REFERENCE]
    public = {name: getattr(package, name) for package in packages for name in package.__all__}
    for package in packages:
        vars(package).update({name: public[name] for name in package.__all__})
    for module in [module for name, module in sys.modules.items() if name.startswith(REFERENCE)]:
        # A struct's signature reads annotations that only a type checker imports.
        for name, value in public.items():
            vars(module).setdefault(name, value)


show_public_names()


def lead_to_the_public_name(
    app: Sphinx, env: BuildEnvironment, node: Element, content: Element
) -> reference | None:
    """Signatures name the module that a class was written in; the page has the one it is for."""
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("duplex_"):
        return None
    ending = "." + target.rpartition(".")[2]
    package = target.partition(".")[0]
    objects = env.domains.python_domain.objects
    found = [name for name in objects if name.startswith(package) and name.endswith(ending)]
    if len(found) != 1:
        return None
    entry = objects[found[0]]
    from_page = str(node.get("refdoc", env.docname))
    return make_refnode(app.builder, from_page, entry.docname, entry.node_id, content, found[0])


def without_addresses(
    app: Sphinx, what: str, name: str, thing: object, options: object, said: str, returned: str
) -> tuple[str, str] | None:
    """A default that is no literal is told as dots; else the signature could not be laid out."""
    return (re.sub(r"<[^<>]*>", "...", said), returned) if said else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("missing-reference", lead_to_the_public_name)
    app.connect("autodoc-process-signature", without_addresses)
    return {"parallel_read_safe": True}
