from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
    return [7]
"""

AUTHENTICATES = """
from duplex_sdk.discovery import hookimpl

ASKED = []

@hookimpl
def duplex_authenticator(settings):
    ASKED.append(settings["plugin"])
    return list(ASKED)
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


def test_a_package_that_fails_keeps_no_other_from_answering(on_path: Any) -> None:
    site = on_path()
    site.hook("observes", OBSERVES)
    site.hook("fails", OBSERVES.replace("return [7]", "raise SystemExit('no')"))
    answers = {
        answer.package: (answer.value, answer.failure)
        for answer in load_hooks().ask("duplex_observers", settings={})
    }
    assert answers == {
        "duplex-hook-observes:observes": ([7], None),
        "duplex-hook-fails:fails": (None, "SystemExit: no"),
    }


def test_who_takes_the_first_answer_calls_no_other_package(on_path: Any) -> None:
    site = on_path()
    site.hook("a_first", AUTHENTICATES)
    site.hook("b_second", AUTHENTICATES)
    answers = load_hooks().ask("duplex_authenticator", settings={"plugin": "echo"})
    first = next(answers)
    assert first.value == ["echo"]
    other = {"duplex-hook-a_first:a_first", "duplex-hook-b_second:b_second"} - {first.package}
    second = sys.modules["fake_hook_" + other.pop().partition(":")[2]]
    assert second.ASKED == []


def test_a_package_without_an_answer_answers_none(on_path: Any) -> None:
    on_path().hook("mute", OBSERVES.replace("return [7]", "return None"))
    assert [answer.value for answer in load_hooks().ask("duplex_observers", settings={})] == [None]


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
        "rows": [],
    }
