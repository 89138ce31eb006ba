"""What the stages did for a session is told with one response, whichever comes first."""

from __future__ import annotations

import random
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import CancelResponse, Commit
from duplex_sdk.session import inputs
from duplex_sdk.session.stage_metrics import StageMetrics, add_figures
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.session_lab import SessionLab


def figures(outputs: int = 1, first: float | None = None, **others: Any) -> dict[str, Any]:
    return {"stage_id": 0, "outputs": outputs, "first_output_ms": first, **others}


def test_counters_add_and_the_first_time_stays() -> None:
    total: StageMetrics = {}
    add_figures(total, "0", figures(2, None, audio_ms=40.0, name="a"))
    add_figures(total, "0", figures(3, 12.5, audio_ms=20.0, name="b"))
    add_figures(total, "0", figures(1, 99.0))
    add_figures(total, "1", figures(7))
    assert total["0"] == {
        "stage_id": 0,
        "outputs": 6,
        "first_output_ms": 12.5,
        "audio_ms": 60.0,
        "name": "b",
    }
    assert total["1"]["outputs"] == 7


@pytest.fixture
def lab(make_lab: Any) -> SessionLab:
    session = {"extra_body": {"return_stage_metrics": True}}
    made: SessionLab = make_lab(session, script={"turns": "commit", "answers": [{"ms": 200}]})
    return made


def say(lab: SessionLab, outputs: int, **fields: Any) -> None:
    """The last stage says something, and what it did up to here."""
    context = lab.submitted[-1].context
    output = StageOutput(
        session_id=context.session_id,
        request_id=context.request_id,
        epoch=fields.pop("epoch", context.fence.epoch),
        turn_id=context.fence.turn_id,
        **fields,
    )
    lab.feed(inputs.StageOutputReceived(output, 0, metrics=figures(outputs)))


def told(lab: SessionLab) -> list[int]:
    """Outputs counted for each response that ended."""
    done = [each for each in (e.to_realtime() for e in lab.events) if each["type"] == DONE]
    metrics = [each["response"]["metadata"]["duplex"].get("stage_metrics") for each in done]
    return [each["0"]["outputs"] if each else 0 for each in metrics]


DONE = "response.done"


def test_figures_that_come_before_a_response_are_told_with_it(make_lab: Any) -> None:
    session = {"auto_response": True, "extra_body": {"return_stage_metrics": True}}
    lab: SessionLab = make_lab(session, script={"turns": "native", "answers": [None] * 9})
    lab.speak(200)
    for _ in range(2):
        say(lab, 5)
        say(lab, 2, text="hello")
        say(lab, 1, end_of_turn=True)
    assert told(lab) == [8, 8]


def test_figures_of_an_ended_epoch_are_nobodys(lab: SessionLab) -> None:
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(20)
    lab.send(CancelResponse())
    say(lab, 9)
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(3000)
    assert 9 not in told(lab)


@pytest.mark.parametrize("seed", range(40))
def test_every_figure_is_told_once_or_still_waits(lab: SessionLab, seed: int) -> None:
    """110: whatever order responses and outputs come in."""
    rng = random.Random(seed)
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(3000)
    counted = 0
    for _ in range(80):
        step = rng.randrange(5)
        if step == 0:
            lab.speak(100)
            lab.send(Commit(response_create=True))
            lab.run(rng.choice([10, 100, 3000]))
        elif step == 1:
            lab.send(CancelResponse())
        elif step == 2:
            say(lab, 100, epoch=lab.session.epoch - 1 if lab.session.epoch else -1)
        else:
            state = lab.session.state
            context = lab.submitted[-1].context
            taken = context.fence.epoch == lab.session.epoch and state.requests.accepts_output(
                context.request_id
            )
            counted += 7 * taken
            say(lab, 7)
    state = lab.session.state
    open_ones = [state.response.stage_metrics] if state.response is not None else []
    waiting = sum(each["0"]["outputs"] for each in (*open_ones, state.stage_metrics) if "0" in each)
    assert sum(told(lab)) + waiting == counted
    assert counted
