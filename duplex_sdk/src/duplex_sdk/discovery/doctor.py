"""Is what is installed sound? Each plugin is looked at in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from .dependencies import check_dependencies
from .entries import PLUGINS_GROUP, InstalledEntry, entries, trouble
from .hooks import LoadedHooks, load_hooks
from .machine import check_memory
from .report import Check, Report

__all__ = ["PROBE_TIMEOUT_S", "examine", "examine_hooks"]

PROBE_TIMEOUT_S = 15.0


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
    # Started together: one that hangs must not make the others wait.
    probes = {entry.name: _start(entry.name) for entry in chosen if trouble(entry, found) is None}
    reports = []
    for entry in chosen:
        wrong = trouble(entry, found)
        if wrong is None:
            checks = _import_checks(entry, probes[entry.name], timeout_s, here=here)
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


def _start(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "duplex_sdk.discovery.probe", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _import_checks(
    entry: InstalledEntry, process: subprocess.Popen[str], timeout_s: float, *, here: bool
) -> list[Check]:
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            detail = f"its descriptor takes more than {timeout_s:g} s to import"
            return [Check("import", False, detail, _repair(entry))]
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        detail = f"the interpreter ended with {process.returncode}: {_last_line(err)}"
        return [Check("import", False, detail, _repair(entry))]
    if answer["error"] is not None:
        return [Check(answer["kind"], False, answer["error"], answer["hint"])]
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
