from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

import pytest
from duplex_sdk.cli.app import build_app
from duplex_sdk.session.append_queue import AppendQueue
from duplex_sdk.testing.invariants import LAWS
from duplex_sdk.testing.simulation import (
    SCRIPTED_KINDS,
    Soak,
    draw,
    kinds_of,
    run,
    shrink,
    soak,
)
from duplex_sdk.testing.simulation.action import ACTIONS, Action
from duplex_sdk.testing.simulation.fault_actions import FAULTS
from duplex_sdk.testing.simulation.schedule import Schedule
from duplex_sdk.testing.simulation.talker import Talker
from typer.testing import CliRunner

FIXED, FRESH, LONG_LIVES = 5000, 500, 1000


@pytest.fixture
def leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lease operations of units never end."""

    def leave(queue: Any) -> Any:
        queue._current = None

    monkeypatch.setattr(AppendQueue, "_leave", lambda queue, append: leave(queue))


def failing(limit: int = 200) -> Any:
    for seed in range(limit):
        schedule = draw(seed, SCRIPTED_KINDS)
        failure = run(schedule, SCRIPTED_KINDS)
        if failure is not None:
            return schedule, failure
    raise AssertionError("nothing failed")


@pytest.mark.timeout(600)
def test_every_law_holds_in_thousands_of_known_lives() -> None:
    result = soak(Soak(seed=0, schedules=FIXED))
    assert result.failed is None, f"seed {result.seed}: {result.failed}"
    assert result.schedules == FIXED
    idle = {law.title for law in LAWS if not result.looked[law.number]}
    assert not idle, f"nothing ever happened that these laws could look at: {idle}"


@pytest.mark.timeout(300)
def test_every_law_holds_in_lives_nobody_has_seen() -> None:
    seed = secrets.randbelow(1 << 31)
    result = soak(Soak(seed=seed, schedules=FRESH))
    assert result.failed is None, f"seed {result.seed}: {result.failed}"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_law_holds_in_long_lives() -> None:
    """Some things meet only after many others: each of these lives is ten usual ones."""
    for seed in range(LONG_LIVES):
        schedule = draw(seed, SCRIPTED_KINDS, longest=80)
        failure = run(schedule, SCRIPTED_KINDS)
        assert failure is None, f"seed {seed}: {failure}"


def test_a_sign_of_attention_may_be_told_and_dropped_in_one_step() -> None:
    """Law 28 blamed the core for it: the piece holds all of it and the silence behind."""
    schedule = Schedule(
        seed=30013564,
        kinds=("sustained early",),
        policy="commit_all_on_done",
        overflow="fail_response",
        narrow=False,
        actions=(
            Action("hang_and_sleep"),
            Action("commit", options=(("ask", True), ("final", True))),
            Action("talk_over", options=(("ms", 130), ("hint", "drop"))),
            Action("stage_confuses"),
        ),
    )
    assert run(schedule, SCRIPTED_KINDS) is None


def test_a_seed_is_a_life(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []

    class Watched(Talker):
        def come_to_rest(self) -> None:
            super().come_to_rest()
            told.extend(repr(event).encode() for event in self.lab.events)

    monkeypatch.setattr("duplex_sdk.testing.simulation.world.Talker", Watched)
    lives = []
    for seed in (11, 12, 13, 14, 15) * 2:
        schedule = draw(seed, SCRIPTED_KINDS)
        assert run(schedule, SCRIPTED_KINDS) is None
        lives.append((schedule, tuple(told)))
        told.clear()
    assert lives[:5] == lives[5:]
    assert len(set(map(str, lives))) == 5
    assert any(events for _, events in lives)


def test_everything_that_can_happen_is_drawn() -> None:
    drawn = {each.name for seed in range(300) for each in draw(seed, SCRIPTED_KINDS).actions}
    assert drawn == set(ACTIONS)


def test_every_kind_of_fault_occurs() -> None:
    drawn = Counter(each.name for seed in range(500) for each in draw(seed, SCRIPTED_KINDS).actions)
    for kind, actions in FAULTS.items():
        assert set(actions) <= set(ACTIONS), kind
        assert all(drawn[action] for action in actions), kind


@pytest.mark.usefixtures("leak")
def test_a_failure_is_shrunk_to_what_it_needs() -> None:
    schedule, failure = failing()
    short, again = shrink(schedule, failure, SCRIPTED_KINDS)
    assert again.law == failure.law
    assert len(short.actions) <= 3
    for place in range(len(short.actions)):
        actions = short.actions[:place] + short.actions[place + 1 :]
        fewer = type(short)(**{**vars(short), "actions": actions})
        found = run(fewer, SCRIPTED_KINDS)
        assert found is None or found.law != failure.law


@pytest.mark.usefixtures("leak")
def test_the_command_shows_the_seed_the_law_and_the_script() -> None:
    app = build_app(["simulate"])
    done = CliRunner().invoke(
        app, ["simulate", "--seed", "0", "--schedules", "50", "--processes=1"]
    )
    assert done.exit_code == 1
    assert "38 no_lease_operation_is_left: a lease operation is still active" in done.output
    assert "client 0: " in done.output
    assert "UnitSubmitted(op=" in done.output.partition("the last steps:")[2]
    assert "\\x00" not in done.output, "samples are nothing to read"
    assert "run it again: duplex simulate --seed" in done.output


def test_the_command_shows_every_step_of_one_life() -> None:
    done = CliRunner().invoke(build_app(["simulate"]), ["simulate", "--seed", "3", "--trace"])
    assert done.exit_code == 0, done.output
    script = draw(3, SCRIPTED_KINDS)
    for each in script.actions:
        assert f"-- {each}" in done.output
    assert "  ->  " in done.output


@pytest.mark.parametrize("plugin", [[], ["--plugin", "scripted"]])
def test_the_command_runs_as_many_as_it_is_told(plugin: list[str]) -> None:
    asked = ["simulate", "--seed", "0", "--schedules", "30", "--processes", "1", *plugin]
    done = CliRunner().invoke(build_app(["simulate"]), asked)
    assert done.exit_code == 0, done.output
    assert "30 schedules in" in done.output
    assert "every law held" in done.output


def test_the_command_stops_when_the_time_is_over() -> None:
    asked = ["simulate", "--minutes", "0.001", "--processes", "1"]
    done = CliRunner().invoke(build_app(["simulate"]), asked)
    assert done.exit_code == 0, done.output
    assert "every law held" in done.output


def test_a_plugin_is_tried_in_every_manner_it_knows() -> None:
    native = SCRIPTED_KINDS["native"].plugin()
    assert set(kinds_of(native)) == {"as it is", "auto", "detector"}
