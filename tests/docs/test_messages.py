"""What our messages send people to is there: commands of ours, and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer
from duplex_sdk.cli import build_app

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("duplex_sdk", "duplex_server", "plugins-local", "plugins-personaplex")
    for path in (ROOT / folder / "src").rglob("*.py")
)
# At the beginning, in backquotes, or after a colon: elsewhere `duplex` may be any word.
COMMAND = re.compile(r"(?:^|`|: |, |or )duplex ([a-z][a-z-]+)(?: ([a-z]+))?(?![\w-])")
PAGE = re.compile(r"\b(?:docs/)?([\w/-]+\.md)(?:#([\w-]+))?")


def texts(path: Path) -> Iterator[str]:
    """String constants of a module but its docstrings."""
    tree = ast.parse(path.read_text())
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def commands() -> dict[str, set[str]]:
    """Every command of ours and of installed packages, with its sub-commands."""
    group = typer.main.get_command(build_app([]))
    found = {name: set(getattr(each, "commands", ())) for name, each in group.commands.items()}
    # It is `local` that brings this one, wherever it is installed.
    return {"models": {"add"}, **found}


def test_every_command_that_a_message_names_is_there() -> None:
    known = commands()
    named = {
        (found[1], found[2])
        for path in SOURCES
        for text in texts(path)
        for found in COMMAND.finditer(text)
    }
    assert {("plugins", "doctor"), ("serve", None)} <= named
    unknown = {
        (name, second)
        for name, second in named
        if name not in known or (second and known[name] and second not in known[name])
    }
    assert unknown == set()


def heading_anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}


def test_every_page_that_a_message_names_is_there() -> None:
    named = {
        (path.name, found[1], found[2])
        for path in SOURCES
        for text in texts(path)
        for found in PAGE.finditer(text)
    }
    assert named
    lost = {
        (where, page, anchor)
        for where, page, anchor in named
        if not (ROOT / "docs" / page).exists()
        or (anchor and anchor not in heading_anchors(ROOT / "docs" / page))
    }
    assert lost == set()
