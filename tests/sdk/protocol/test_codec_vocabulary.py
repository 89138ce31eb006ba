"""How many messages there are, in which tier, and what each tier adds."""

from __future__ import annotations

import pytest
from duplex_sdk.protocol import duplex
from duplex_sdk.protocol.duplex import commands, events
from duplex_sdk.protocol.realtime import commands as realtime_commands
from duplex_sdk.protocol.realtime import events as realtime_events

TIER_3_TYPES = {
    "response.speak",
    "response.listen",
    "overlap.decision",
    "playback.acknowledged",
    "turn.event",
    "session.heartbeat_ack",
    "session.resumed",
    "session.replaced",
    "session.resync_required",
    "session.closed",
    "session.expired",
    "duplex",
}


def test_events_number_42_in_three_tiers() -> None:
    assert [len(tier) for tier in (events.TIER_1_EVENTS, events.TIER_2_EVENTS)] == [22, 8]
    assert {event.type for event in events.TIER_3_EVENTS} == TIER_3_TYPES
    assert len({event.type for event in events.DUPLEX_EVENTS}) == 42
    assert len(events.EXTENSION_EVENTS) == 2
    assert not set(events.EXTENSION_EVENTS) & set(events.DUPLEX_EVENTS)


def test_commands_number_17_in_three_tiers() -> None:
    tiers = (commands.TIER_1_COMMANDS, commands.TIER_2_COMMANDS, commands.TIER_3_COMMANDS)
    assert [len(tier) for tier in tiers] == [8, 2, 7]
    assert len({command.type for command in commands.DUPLEX_COMMANDS}) == 17


def test_openai_tier_has_30_events_and_10_commands() -> None:
    assert len({event.type for event in realtime_events.REALTIME_EVENTS}) == 30
    assert len({command.type for command in realtime_commands.REALTIME_COMMANDS}) == 10


@pytest.mark.parametrize("event", events.TIER_2_EVENTS, ids=lambda event: event.__name__)
def test_tier_2_event_extends_its_openai_twin(event: type[events.DuplexEvent]) -> None:
    twin = getattr(realtime_events, event.__name__)
    assert issubclass(event, twin)
    assert event is not twin
    assert event.type == twin.type
    assert set(twin.WIRE) <= set(event.WIRE)


@pytest.mark.parametrize("command", commands.TIER_2_COMMANDS, ids=lambda command: command.__name__)
def test_tier_2_command_extends_its_openai_twin(command: type[commands.RealtimeCommand]) -> None:
    twin = getattr(realtime_commands, command.__name__)
    assert issubclass(command, twin)
    assert command is not twin
    assert set(twin.__struct_fields__) < set(command.__struct_fields__)


def test_openai_tier_knows_no_field_of_ours() -> None:
    assert "resume_token" not in realtime_events.SessionCreated.__struct_fields__
    assert "video_frames" not in realtime_commands.AppendAudio.__struct_fields__
    assert "final" not in realtime_commands.Commit.__struct_fields__
    rendered = realtime_events.AudioDelta(
        event_id="event_1", response_id="resp_1", item_id="item_1", delta=b"\0\0"
    ).to_realtime()
    assert set(rendered) == {
        "type",
        "event_id",
        "response_id",
        "item_id",
        "output_index",
        "content_index",
        "delta",
    }


@pytest.mark.parametrize(
    "event", [*events.TIER_1_EVENTS, *events.EXTENSION_EVENTS], ids=lambda event: event.__name__
)
def test_duplex_door_hands_out_openai_events_unchanged(event: type[events.DuplexEvent]) -> None:
    assert getattr(duplex, event.__name__) is event
    assert getattr(realtime_events, event.__name__) is event


@pytest.mark.parametrize("command", commands.TIER_1_COMMANDS, ids=lambda command: command.__name__)
def test_duplex_door_hands_out_openai_commands_unchanged(
    command: type[commands.RealtimeCommand],
) -> None:
    assert getattr(duplex, command.__name__) is command
    assert getattr(realtime_commands, command.__name__) is command


def test_duplex_door_hands_out_every_message() -> None:
    messages: list[type] = [*events.DUPLEX_EVENTS, *commands.DUPLEX_COMMANDS]
    for message in (*messages, commands.RetrieveItem):
        assert getattr(duplex, message.__name__) is message
    assert all(hasattr(duplex, name) for name in duplex.__all__)


def test_class_relations_answer_with_one_check() -> None:
    assert issubclass(events.SessionResumed, events.SessionCreated)
    assert issubclass(events.SessionExpired, events.SessionClosed)
    assert issubclass(events.OutputItemDone, events.OutputItemAdded)
    assert issubclass(events.ContentPartDone, events.ContentPartAdded)
