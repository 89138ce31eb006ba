"""Is what is installed sound? Each plugin is looked at in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .dependencies import check_dependencies
from .entries import PLUGINS_GROUP, InstalledEntry, entries, trouble
from .hooks import LoadedHooks, load_hooks
from .machine import check_memory
from .report import Check, Report

__all__ = ["PROBE_TIMEOUT_S", "examine", "examine_hooks"]

PROBE_TIMEOUT_S = 15.0

START_S = 60.0
"""How long an interpreter may take to begin, on a machine that has much else to do."""

# Fifty interpreters at once would be in each other's way.
_AT_ONCE = max(4, os.cpu_count() or 1)


def examine(
    name: str | None = None, *, timeout_s: float = PROBE_TIMEOUT_S, here: bool = False
) -> tuple[Report, ...]:
    """One report per installed plugin, or of the one called ``name``; none if nobody has it.

    Args:
        name: the plugin, None: all.
        timeout_s: longest a descriptor may take to import.
        here: whether this machine can run it is looked at too.
    """
    found, problems = entries(PLUGINS_GROUP)
    chosen = [entry for entry in found if name in (None, entry.name)]
    sound = [entry for entry in chosen if trouble(entry, found) is None]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = [entry.name for entry in sound]
        tried = dict(zip(names, pool.map(lambda name: _tried(name, timeout_s), names), strict=True))
    reports = []
    for entry in chosen:
        wrong = trouble(entry, found)
        if wrong is None:
            checks = _import_checks(entry, tried[entry.name], here=here)
        else:
            checks = [Check("entry point", False, wrong, _repair(entry))]
        checks.append(check_dependencies(entry.requires))
        if entry.shadowed:
            checks.append(_versions(entry))
        subject = f"{entry.name} ({entry.distribution} {entry.version})"
        reports.append(Report(subject, tuple(checks)))
    if name is None:
        reports += [
            Report(problem.distribution, (Check("metadata", False, problem.reason),))
            for problem in problems
        ]
    return tuple(reports)


def examine_hooks(loaded: LoadedHooks | None = None) -> Report:
    """Whether the installed hook packages load; imports them unless somebody has."""
    loaded = loaded or load_hooks()
    checks = [
        Check(failure.name, False, failure.reason, f"pip install -U {failure.distribution}")
        for failure in loaded.failures
    ]
    checks += [Check(name, True) for name, _ in loaded.manager.list_name_plugin()]
    return Report("hooks", tuple(checks))


def _tried(name: str, timeout_s: float) -> dict[str, Any] | str:
    """What the probe of a plugin answers, or how it ended without an answer."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "duplex_sdk.discovery.probe", name, str(timeout_s)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            # It gives up by itself, unless what hangs lets no other thread run.
            timeout=timeout_s + START_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"its descriptor takes more than {timeout_s:g} s to import"
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return f"the interpreter ended with {done.returncode}: {_last_line(done.stderr)}"
    return answer


def _import_checks(
    entry: InstalledEntry, answer: dict[str, Any] | str, *, here: bool
) -> list[Check]:
    if isinstance(answer, str):
        return [Check("import", False, answer, _repair(entry))]
    if answer["error"] is not None:
        hint = answer["hint"] or _repair(entry)
        return [Check(answer["kind"], False, answer["error"], hint)]
    needed = answer["spec"]["memory_bytes"]
    quiet = [_printed(answer["printed"])] if answer["printed"] else []
    return [*_checks(answer), *quiet, *([check_memory(needed)] if here and needed else [])]


def _checks(answer: dict[str, Any]) -> list[Check]:
    runtimes = answer["runtimes"]
    return [
        Check("import", True, "its descriptor imports"),
        Check("api", True, answer["spec"]["api"]),
        Check(
            "light",
            not runtimes,
            f"its descriptor imports {', '.join(runtimes)}" if runtimes else "no runtime imported",
            "import the runtime in the stage's module, not beside the descriptor"
            " (docs/howto/environment.md)"
            if runtimes
            else None,
        ),
    ]


def _printed(text: str) -> Check:
    line = " ".join(text.split())
    return Check(
        "quiet",
        False,
        f"its descriptor prints {line!r}",
        "a print at import lands in the output of every command that reads the descriptor",
    )


def _versions(entry: InstalledEntry) -> Check:
    others = ", ".join(entry.shadowed)
    return Check(
        "one version",
        False,
        f"{entry.version} is used, and {others} lies on the path as well",
        f"pip uninstall {entry.distribution} until it is gone, then install it again",
    )


def _repair(entry: InstalledEntry) -> str:
    return f"pip install -U {entry.distribution}, or pip uninstall {entry.distribution}"


def _last_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return lines[-1] if lines else "no output"
