"""The kit's part in pytest: the subject of a suite, the guard at collection, the report card.

Pytest imports this module in every environment that has the SDK, so it imports nothing else of it
until a test module has.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from duplex_sdk.testing.conformance.subject import Subject

__all__ = ["conformance"]

KIT = "duplex_sdk.testing.conformance"
NOTED = pytest.StashKey[bool]()

pytest.register_assert_rewrite(KIT)


def _is_suite(found: object) -> bool:
    """Whether a test class is a suite of the kit, the kit's own abstract one excluded."""
    if KIT not in sys.modules or not inspect.isclass(found):
        return False
    from duplex_sdk.testing.conformance import ModelConformance

    return issubclass(found, ModelConformance) and found is not ModelConformance


@pytest.fixture(scope="class")
def conformance(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """The plugin under test, its models loaded once for all laws of a suite."""
    subject: Subject = request.cls.subject()
    yield subject
    subject.unload()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that writes the report card to a file."""
    group = parser.getgroup("duplex", "conformance of duplex plugins")
    group.addoption(
        "--duplex-report",
        metavar="FILE",
        type=Path,
        help="write the conformance report card as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Get ready to keep the results."""
    from duplex_sdk.testing.report_card import ReportCards

    config.pluginmanager.register(ReportCards(), "duplex-report-cards")


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> None:
    """Refuse a suite that would run nothing, or not all it should.

    Raises:
        CollectError: a test class leaves ``spec`` open, which pytest passes over in silence, or
            drops a law without saying why.
    """
    if not _is_suite(obj) or not collector.classnamefilter(name):
        return
    assert isinstance(obj, type)
    missing = sorted(getattr(obj, "__abstractmethods__", ()))
    if missing:
        raise pytest.Collector.CollectError(
            f"{name} is a conformance suite without {', '.join(missing)}: none of its laws would"
            f" run. Write the missing propert{'y' if len(missing) == 1 else 'ies'}, or rename the"
            " class if it is a base of others"
        )
    for reason in _what_runs_nothing(obj):
        raise pytest.Collector.CollectError(f"{name}: {reason}")
    for law in _dropped_laws(obj):
        raise pytest.Collector.CollectError(
            f"{name}.{law} drops a law of the contract. Override it with a method that calls"
            f" super().{law}(conformance) and is marked @pytest.mark.xfail(reason='...')"
        )


def _what_runs_nothing(suite: type) -> Iterator[str]:
    """How a suite as a whole keeps its laws from being run, or from being heard."""
    for name in ("__init__", "__new__"):
        if inspect.getattr_static(suite, name) is not inspect.getattr_static(object, name):
            # Pytest passes over it with a warning.
            yield f"a conformance suite has no {name}; say what differs by its properties"
    if inspect.getattr_static(suite, "conformance", None) is not None:
        yield "the fixture `conformance` is the kit's; a suite says what differs by its properties"
    for mark in getattr(suite, "pytestmark", ()):
        if mark.name == "skip":
            yield "a suite that is skipped drops every law; name a law that is broken, and why"
        if mark.name == "xfail" and not _reason(mark):
            yield "an xfail says why: @pytest.mark.xfail(reason='...')"


def _reason(mark: pytest.Mark) -> str:
    return str(mark.kwargs.get("reason") or "").strip()


def _dropped_laws(suite: type) -> list[str]:
    """Laws that a suite overrides in another way than as an xfail with a reason."""
    from duplex_sdk.testing.conformance.run import law_levels

    dropped = []
    for law in law_levels():
        found: Any = inspect.getattr_static(suite, law, None)
        if getattr(found, "__module__", "").startswith(f"{KIT}."):
            continue
        marks = {mark.name: mark for mark in getattr(found, "pytestmark", ())}
        excused = "xfail" in marks and _reason(marks["xfail"])
        if not excused or {"skip", "skipif"} & set(marks) or not _calls_super(found, law):
            dropped.append(law)
    return dropped


def _calls_super(found: object, law: str) -> bool:
    """Whether an overriding method names ``super`` and the law: what else it does is its own."""
    function = inspect.unwrap(found) if callable(found) else None
    names = function.__code__.co_names if inspect.isfunction(function) else ()
    return "super" in names and law in names


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note which plugin and which law a test is about, for the report card."""
    if not isinstance(item, pytest.Function) or not _is_suite(item.cls):
        return
    from duplex_sdk.testing.conformance.breach import DoesNotApply
    from duplex_sdk.testing.conformance.run import law_levels
    from duplex_sdk.testing.report_card import NOT_APPLYING

    level = law_levels().get(item.originalname)
    if level is None:
        return
    if not item.stash.get(NOTED, False):
        item.stash[NOTED] = True
        law = item.originalname.removeprefix("test_")
        assert item.cls is not None
        suite = f"{item.cls().spec.name} ({item.cls.__name__})"
        item.user_properties.append(("duplex-law", json.dumps([suite, level, law])))
    why = None if call.excinfo is None else getattr(call.excinfo.value, "msg", None)
    if isinstance(why, DoesNotApply):
        item.user_properties.append((NOT_APPLYING, True))
