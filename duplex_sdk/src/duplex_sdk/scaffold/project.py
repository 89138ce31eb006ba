"""From templates to the files of a project, all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from .names import ProjectName

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from jinja2 import Environment

__all__ = ["Kind", "render_project"]

_RENDERED = ".jinja"
# For copier, which can render the same folder; we know the answers to its questions.
_QUESTIONS = "copier.yml"
_NOT_TEMPLATES = ("__pycache__", _QUESTIONS)


class Kind(StrEnum):
    """What the new plugin does to begin with."""

    MINIMAL = "minimal"
    TURN = "turn"
    FRAME = "frame"


def render_project(name: ProjectName, kind: Kind) -> dict[PurePosixPath, bytes]:
    """All files of a new project by their path in its folder, sorted. Writes nothing.

    The templates keep copier's conventions: a file that ends in ``.jinja`` is rendered, any other
    is copied as it is, and a name is a template too; one that renders to nothing is left out.

    Raises:
        jinja2.UndefinedError: a template asks for something nobody answers.
        ValueError: a name leads out of the folder, or two templates make the same file.
    """
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.globals.update(
        name=name.plugin, distribution=name.distribution, package=name.package, kind=kind.value
    )
    rendered: dict[PurePosixPath, bytes] = {}
    for path, content in _rendered_under(
        files("duplex_templates") / "plugin", PurePosixPath(), environment
    ):
        if path in rendered:
            raise ValueError(f"two templates make {path}")
        rendered[path] = content
    return dict(sorted(rendered.items()))


def _rendered_under(
    folder: Traversable, here: PurePosixPath, environment: Environment
) -> Iterator[tuple[PurePosixPath, bytes]]:
    for entry in folder.iterdir():
        if entry.name in _NOT_TEMPLATES:
            continue
        template_name = entry.name.removesuffix(_RENDERED) if entry.is_file() else entry.name
        name = environment.from_string(template_name).render()
        if not name:
            continue
        if name in (".", "..") or "/" in name or "\\" in name:
            raise ValueError(f"the template {entry.name!r} leads out of its folder")
        if entry.is_dir():
            yield from _rendered_under(entry, here / name, environment)
        elif entry.name.endswith(_RENDERED):
            text = environment.from_string(entry.read_text(encoding="utf-8")).render()
            yield here / name, text.encode()
        else:
            yield here / name, entry.read_bytes()
