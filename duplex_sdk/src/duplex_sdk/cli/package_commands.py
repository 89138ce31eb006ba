"""Commands that installed packages add to ``duplex``; they are looked at before they count.

A package that fails, hangs, takes a name that is taken or adds what cannot be a command is left out
with all it added; the others and our own are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
import typer.main

from duplex_sdk.discovery.containment import ForeignCodeError, contained

if TYPE_CHECKING:
    from typer.models import CommandInfo, TyperInfo

    from duplex_sdk.discovery import LoadedHooks

__all__ = ["add_commands_of_packages"]

HOOK = "duplex_register_commands"

# Whoever installs a package must not find `duplex serve` replaced by it.
_FIRST = "duplex-server:"


@dataclass(frozen=True, slots=True)
class _Addition:
    """What one package adds."""

    package: str
    commands: tuple[CommandInfo, ...]
    groups: tuple[TyperInfo, ...]

    def names(self) -> list[str]:
        """Of its commands and groups.

        Raises:
            ValueError: a group has none.
        """
        return [*map(_name_of, self.commands), *map(_group_name, self.groups)]


def add_commands_of_packages(
    app: typer.Typer, hooks: LoadedHooks, limit_s: float
) -> Iterator[tuple[str, str]]:
    """Add what the packages offer; yields those that were left out, each with the reason.

    Args:
        app: has our own commands already.
        hooks: as loaded.
        limit_s: longest that a package may take to add its commands.
    """
    taken = dict.fromkeys(map(_name_of, app.registered_commands), "the SDK itself")
    taken |= dict.fromkeys(map(_group_name, app.registered_groups), "the SDK itself")
    additions = []
    for package, outcome in _additions(app, hooks, limit_s):
        if isinstance(outcome, str):
            yield package, outcome
        else:
            additions.append(outcome)
    for addition in sorted(additions, key=lambda each: not each.package.startswith(_FIRST)):
        wrong = _trouble(addition, taken)
        if wrong is not None:
            yield addition.package, wrong
            continue
        taken |= dict.fromkeys(addition.names(), addition.package)
        app.registered_commands += addition.commands
        app.registered_groups += addition.groups


def _additions(
    app: typer.Typer, hooks: LoadedHooks, limit_s: float
) -> Iterator[tuple[str, _Addition | str]]:
    """What each package adds, or why it adds nothing; ``app`` is afterwards as it was."""
    commands, groups = tuple(app.registered_commands), tuple(app.registered_groups)
    root = app.registered_callback
    for answer in hooks.ask(HOOK, limit_s=limit_s, app=app):
        added = _Addition(
            answer.package,
            tuple(app.registered_commands[len(commands) :]),
            tuple(app.registered_groups[len(groups) :]),
        )
        kept = (*app.registered_commands,)[: len(commands)] == commands
        kept = kept and (*app.registered_groups,)[: len(groups)] == groups
        kept = kept and app.registered_callback is root
        app.registered_commands, app.registered_groups = list(commands), list(groups)
        app.registered_callback = root
        if answer.failure is not None:
            yield answer.package, answer.failure
        elif not kept:
            yield answer.package, "it changes what is not its own; app.command() adds a command"
        else:
            yield answer.package, added


def _trouble(addition: _Addition, taken: dict[str, str]) -> str | None:
    """Why what a package adds cannot be offered; None: it can."""
    try:
        for name in addition.names():
            if name in taken:
                return f"its command {name!r} is one of {taken[name]} already"
    except ValueError as error:
        return str(error)
    alone = typer.Typer()
    alone.registered_commands = list(addition.commands)
    alone.registered_groups = list(addition.groups)
    try:
        # Typer makes all commands whenever one is called: what it cannot make, nobody could call.
        contained(lambda: typer.main.get_group(alone))
    except ForeignCodeError as error:
        return str(error)
    return None


def _name_of(command: CommandInfo) -> str:
    function = command.callback
    return command.name or typer.main.get_command_name(getattr(function, "__name__", "?"))


def _group_name(group: TyperInfo) -> str:
    inner = None if group.typer_instance is None else group.typer_instance.info.name
    for name in (group.name, inner):
        if isinstance(name, str) and name:
            return name
    raise ValueError("a group of commands has no name: app.add_typer(group, name=...)")
