from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import DUPLEX_COMMANDS, AckPlayback, RealtimeCommand, RetrieveItem
from duplex_server.entrypoints.session_commands import SessionCommands

CALLS: dict[str, tuple[Any, ...]] = {
    "append_audio": (b"\0\0",),
    "append_text": ("hello",),
    "commit": (),
    "clear_input": (),
    "cancel_input": (),
    "create_response": (),
    "cancel_response": (),
    "barge_in": (),
    "clear_output_audio": (),
    "create_item": ({"type": "message"},),
    "retrieve_item": ("item_1",),
    "delete_item": ("item_1",),
    "truncate_item": ("item_1", 100),
    "ack_playback": (100.0,),
    "signal_turn": ("user_started",),
    "update": ({},),
    "heartbeat": (),
    "close_after_commands": (),
}


class Recorder(SessionCommands):
    def __init__(self) -> None:
        self.seen: list[RealtimeCommand] = []

    def submit(self, command: RealtimeCommand, *, lenient: bool = False) -> None:
        self.seen.append(command)


def test_every_command_has_a_method() -> None:
    recorder = Recorder()
    for name, arguments in CALLS.items():
        getattr(recorder, name)(*arguments)
    assert {type(command) for command in recorder.seen} == {*DUPLEX_COMMANDS, RetrieveItem}


@pytest.mark.parametrize("field", ["item_id", "truncate"])
def test_further_fields_of_a_command_pass_through(field: str) -> None:
    recorder = Recorder()
    value = {"item_id": "item_r", "truncate": True}[field]
    recorder.ack_playback(5.0, "r", **{field: value})
    (command,) = recorder.seen
    assert isinstance(command, AckPlayback)
    assert (command.response_id, getattr(command, field)) == ("r", value)
