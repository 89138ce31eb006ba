from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.discovery import Check, Report, load_hooks

CHECKS = """
from duplex_sdk.discovery import Check, Report, hookimpl

@hookimpl
def duplex_verify_checkpoint(name):
    if name != "echo":
        return None
    return lambda folder: Report(str(folder), (Check("weights", folder.exists()),))
"""

OBSERVES = """
from duplex_sdk.discovery import hookimpl

@hookimpl
def duplex_observers():
    return []
"""


def test_our_own_hook_packages_load() -> None:
    loaded = load_hooks()
    assert loaded.failures == ()
    assert "duplex-server:server" in [name for name, _ in loaded.manager.list_name_plugin()]


def test_a_hook_returns_the_object_that_does_the_work(on_path: Any, tmp_path: Path) -> None:
    on_path().hook("checks", CHECKS)
    hook = load_hooks().manager.hook
    assert hook.duplex_verify_checkpoint(name="another") is None
    verify = hook.duplex_verify_checkpoint(name="echo")
    assert verify(tmp_path).ok
    assert not verify(tmp_path / "gone").ok


def test_a_hook_that_nobody_calls_yet_says_so(on_path: Any) -> None:
    on_path().hook("observes", OBSERVES)
    with pytest.warns(FutureWarning, match="no released server calls this hook yet"):
        load_hooks()


def test_a_report_is_sound_when_all_its_checks_are() -> None:
    good, bad = Check("a", True), Check("b", False, "broken", "mend it")
    assert Report("x", (good,)).ok
    assert Report("x", (good, bad)).as_dict() == {
        "subject": "x",
        "ok": False,
        "checks": [
            {"name": "a", "ok": True, "detail": "", "hint": None},
            {"name": "b", "ok": False, "detail": "broken", "hint": "mend it"},
        ],
    }
