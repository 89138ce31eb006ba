"""What clients do: they speak, ask, interrupt, edit, acknowledge and stop reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
    encode_base64,
)
from duplex_sdk.session import effects

from .action import action
from .talker import recording

if TYPE_CHECKING:
    from .world import World

_PIECE_MS = 150
_LENGTHS = (7, 20, 80, 130, 300, 900)
_POSITIONS = (0, 1, 250.5, 1000, 9000)
_PLACES = (0, 1, 2, 3)

_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"output_modalities": ["text"]},
    {"metadata": {"a": "3"}},
    {"metadata": {"a": 3}},
    {"conversation": "none"},
    {"conversation": "none", "input": [{"content": [{"type": "input_text", "text": "hi"}]}]},
    {"voice": 3},
)

_CHANGES: tuple[dict[str, Any], ...] = (
    {"instructions": "other"},
    {"id": "client-made", "instructions": "mine"},
    {"model": "no such"},
    {"turn_detection": None},
    {"turn_detection": {"type": "server_vad"}},
    {"sample_rate_hz": 24_000},
    {"voice": "v"},
    {"playback_commit_policy": "ack_only"},
    {"auto_response": True},
    {"auto_response": False},
    {"output_modalities": ["text"]},
    {"output_audio_format": "g711_ulaw"},
)


@action(4, ms=_LENGTHS)
def speak(world: World, who: int, ms: int) -> None:
    """A sound, in pieces, in real time."""
    _microphone(world, who, ms, loud=True)


@action(3, ms=_LENGTHS)
def pause(world: World, who: int, ms: int) -> None:
    """Silence of a microphone that is on."""
    _microphone(world, who, ms, loud=False)


def _microphone(world: World, who: int, ms: int, *, loud: bool) -> None:
    talker = world.talker(who)
    left = ms
    while left > 0:
        piece = min(left, _PIECE_MS)
        if talker is not None:
            talker.send(AppendAudio, audio=talker.sound(piece, loud=loud))
        world.run(piece)
        left -= piece


@action(3, ms=_LENGTHS, hint=(None, True, False))
def send_at_once(world: World, who: int, ms: int, hint: bool | None) -> None:
    """A recording, quicker than it was spoken."""
    if (talker := world.talker(who)) is not None:
        talker.send(AppendAudio, audio=talker.sound(ms), is_speech=hint)


@action(2, hint=("barge_in", "listen", "drop"))
def speak_over(world: World, who: int, hint: str) -> None:
    """Sound with a wish of what shall become of the answer."""
    if (talker := world.talker(who)) is not None:
        talker.lab.send(AppendAudio(audio=talker.sound(130), hints=_hints(overlap_action=hint)))


def _hints(**stated: Any) -> Any:
    hints = AppendAudio().hints
    return type(hints)(**stated)


@action(8, ask=(None, True, True, False), final=(True, True, True, False))
def commit(world: World, who: int, ask: bool | None, final: bool) -> None:
    """End a turn."""
    _send(world, who, Commit, response_create=ask, final=final)


@action(7, ms=(80, 300, 600), wait=(100, 400, 700))
def exchange(world: World, who: int, ms: int, wait: int) -> None:
    """Say something, end the turn, and listen for a while."""
    if (talker := world.talker(who)) is None:
        return
    talker.send(AppendAudio, audio=talker.sound(ms))
    talker.send(Commit, response_create=True)
    if talker.needs_silence:
        talker.send(AppendAudio, audio=talker.sound(600, loud=False))
    world.run(wait)


@action(4, ms=(130, 600))
def utter(world: World, who: int, ms: int) -> None:
    """Say something and be silent: where the detector ends turns, that was one."""
    if (talker := world.talker(who)) is not None:
        talker.send(AppendAudio, audio=talker.sound(ms))
        talker.send(AppendAudio, audio=talker.sound(700, loud=False))
        world.run(400)


@action(3, ms=(130, 600), hint=(None, None, "drop", "listen"))
def talk_over(world: World, who: int, ms: int, hint: str | None) -> None:
    """Say the next thing while the answer to the last one is on its way."""
    if (talker := world.talker(who)) is not None:
        talker.send(AppendAudio, audio=talker.sound(300))
        talker.send(Commit, response_create=True)
        world.run(250)
        hints = AppendAudio().hints if hint is None else _hints(overlap_action=hint)
        talker.send(AppendAudio, audio=talker.sound(ms), hints=hints)
        talker.send(AppendAudio, audio=talker.sound(80))
        talker.send(Commit, response_create=True)
        world.run(800)


@action(3, ms=(0, 90, 200, 9000), again=(0, 150, 9000), by_ack=(False, True))
def hear_and_cut(world: World, who: int, ms: int, again: int, by_ack: bool) -> None:
    """Hear some of an answer, cut it there, and acknowledge more, or less, than that."""
    exchange(world, who, 300, 400)
    if (talker := world.talker(who)) is not None:
        item = talker.item(1)
        talker.send(AckPlayback, played_ms=ms / 2, item_id=item)
        talker.send(AckPlayback, played_ms=ms, item_id=item)
        if by_ack:
            talker.send(AckPlayback, played_ms=ms, item_id=item, truncate=True)
        else:
            talker.send(TruncateItem, item_id=item, audio_end_ms=ms)
        talker.send(AckPlayback, played_ms=again, item_id=item)


@action(2, kind=(ClearInput, BargeIn, CancelInput))
def think_better(world: World, who: int, kind: type[Any]) -> None:
    """Commit, think better of it or of what followed, and begin anew, all at one moment."""
    if (talker := world.talker(who)) is not None:
        talker.hold(effects.DecodeAudio)
        talker.send(AppendAudio, audio=talker.sound(80))
        talker.send(Commit, response_create=True)
        talker.send(AppendAudio, audio=talker.sound(80))
        talker.send(SignalTurn, event="user_started")
        talker.send(kind)
        talker.send(AppendAudio, audio=talker.sound(130))
        talker.let_go(effects.DecodeAudio, well=True)


@action(1)
def commit_silence(world: World, who: int) -> None:
    """End a turn of which the client says that there was nothing in it."""
    _send(world, who, Commit, is_speech=False)


@action(4, options=_OPTIONS)
def create(world: World, who: int, options: dict[str, Any]) -> None:
    """Ask for an answer; its options say whose they are."""
    if (talker := world.talker(who)) is None:
        return
    if options and isinstance(options.get("metadata", {}).get("a", ""), str):
        options = {**options, "metadata": {"asked": str(talker.sent + 1)}}
    talker.send(CreateResponse, response=options)


@action(
    9,
    kind=(CancelResponse, CancelResponse, ClearOutputAudio, ClearInput, CancelInput, BargeIn),
)
def interrupt(world: World, who: int, kind: type[Any]) -> None:
    """Stop something."""
    _send(world, who, kind)


@action(1)
def beat(world: World, who: int) -> None:
    """Say that it is there."""
    _send(world, who, Heartbeat)


@action(2)
def cancel_and_create(world: World, who: int) -> None:
    """Change its mind."""
    _send(world, who, CancelResponse)
    _send(world, who, CreateResponse)


@action(3, role=("user", "user", "assistant", "system"))
def write(world: World, who: int, role: str) -> None:
    """Add a written item."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": "hello"}
    _send(world, who, CreateItem, item={"role": role, "content": [part]})


@action(4, ms=(130, 900), rate=(16_000, 24_000))
def play(world: World, who: int, ms: int, rate: int) -> None:
    """Add an item of recorded speech."""
    part = {
        "type": "input_audio",
        "audio": encode_base64(recording(ms, rate)),
        "format": {"type": "audio/pcm", "rate": rate},
    }
    _send(world, who, CreateItem, item={"role": "user", "content": [part]})


@action(5)
def answer_call(world: World, who: int) -> None:
    """Return what a function gave."""
    if (talker := world.talker(who)) is not None:
        item = {"type": "function_call_output", "call_id": talker.call(), "output": "42"}
        talker.send(CreateItem, item=item)


@action(2, place=_PLACES, kind=(DeleteItem, RetrieveItem))
def of_item(world: World, who: int, place: int, kind: type[Any]) -> None:
    """Delete or read an item."""
    if (talker := world.talker(who)) is not None:
        talker.send(kind, item_id=talker.item(place))


@action(3, place=_PLACES, ms=_POSITIONS)
def truncate(world: World, who: int, place: int, ms: float) -> None:
    """Cut an item."""
    if (talker := world.talker(who)) is not None:
        talker.send(TruncateItem, item_id=talker.item(place), audio_end_ms=ms)


@action(5, place=(None, *_PLACES), ms=_POSITIONS, cut=(False, False, True))
def acknowledge(world: World, who: int, place: int | None, ms: float, cut: bool) -> None:
    """Say what was played."""
    if (talker := world.talker(who)) is not None:
        item = None if place is None else talker.item(place)
        talker.send(AckPlayback, played_ms=ms, item_id=item, truncate=cut)


@action(3, change=_CHANGES)
def update(world: World, who: int, change: dict[str, Any]) -> None:
    """Ask for another configuration."""
    _send(world, who, UpdateSession, session=change)


@action(1, event=("user_started", "assistant_done", "something"))
def signal(world: World, who: int, event: str) -> None:
    """Say where it thinks the turn stands."""
    _send(world, who, SignalTurn, event=event)


@action(6, reads=(False, False, True))
def read(world: World, who: int, reads: bool) -> None:
    """Begin or stop to read events."""
    if (talker := world.talker(who)) is not None:
        talker.lab.reading = reads
        if reads:
            talker.lab.read_all()


@action(1)
def end(world: World, who: int) -> None:
    """Close the session by a command."""
    _send(world, who, CloseSession)


def _send(world: World, who: int, command: type[Any], **fields: Any) -> None:
    if (talker := world.talker(who)) is not None:
        talker.send(command, **fields)
