"""The stream between engine and worker: whole messages, however the bytes arrive."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    Array,
    Image,
    StageError,
    StageInfo,
    StageOutput,
    StagePrompt,
    StageSession,
    ToolCall,
    UnitRequest,
)
from duplex_sdk.stage.host import StepReport
from duplex_sdk.stage.worker import (
    Call,
    CallResult,
    Cancel,
    Close,
    Closed,
    Failed,
    FrameError,
    FrameReader,
    FrameWriter,
    FromWorker,
    Hello,
    HelloReply,
    Hold,
    Load,
    LoadFailed,
    Log,
    Open,
    Opened,
    Outputs,
    Ping,
    Pong,
    Progress,
    Ready,
    Shutdown,
    ToWorker,
    Units,
    Update,
    same_major,
)
from duplex_sdk.stage.worker.framing import MAX_FRAME_BYTES
from hypothesis import given, settings
from hypothesis import strategies as st

SESSION = StageSession("s", {"voice": "a"}, {"k": [1, 2.5, None]}, {"top_p": 0.5}, 7)
PROMPT = StagePrompt(
    kind="stage",
    audio=PcmChunk(b"\0\0\0\0", 16_000),
    images=(Image("image/png", b"x"),),
    token_ids=(1, 2),
    messages=({"role": "user", "content": "hi"},),
    arrays={"codes": Array(b"\1\2", "uint8", (2,))},
    data={"own": b"bytes"},
)
OUTPUT = StageOutput(
    "s",
    "r",
    1,
    2,
    audio=PcmChunk(b"\0\0\0\0", 24_000),
    marks=((3, 10.0),),
    tool_call=ToolCall("f", "{}"),
    error=StageError("c", "m", "event"),
    again_ms=0.0,
)
TO_WORKER = [
    Hello(1, "1.0", "secret"),
    Load("plugin", "a:B", 0, 1, options={"x": 1}),
    Open(SESSION),
    Units([UnitRequest("s", "r", 1, 2, 3, PROMPT)] * 3),
    Update(SESSION),
    Cancel("s", 2, 12.5),
    Hold("s", True),
    Close("s"),
    Call(1, "m", {"a": [1]}),
    Ping(4),
    Shutdown(1.5),
]
FROM_WORKER = [
    HelloReply(1, "1.0", "0.1", "3.11.7", 99),
    Progress(0.5, "weights"),
    Ready(StageInfo("cuda:0", 5, 3)),
    LoadFailed("m", None, "trace"),
    Opened("s", 1.5),
    Outputs([OUTPUT], [("s", 1, 3)], ["s"], StepReport(1.0, 2, 3, 4)),
    Failed("s", StageError("c", "m", "session")),
    Closed("s"),
    CallResult(1, {"v": 1}),
    Pong(4, 0.5, 6, 7),
    Log("info", "text"),
]


def written(*messages: Any) -> bytes:
    writer = FrameWriter()
    for message in messages:
        writer.add(message)
    return bytes(writer.take())


def read(reader: FrameReader[Any], data: bytes, sizes: list[int]) -> list[Any]:
    """Feed bytes in portions of the given sizes, the last one repeated."""
    messages: list[Any] = []
    sizes, at = [*sizes], 0
    while at < len(data):
        room = reader.room()
        count = min(len(room), len(data) - at, sizes.pop(0) if len(sizes) > 1 else sizes[0])
        room[:count] = data[at : at + count]
        messages += reader.received(count)
        at += count
    return messages


@pytest.mark.parametrize(
    ("kind", "message"),
    [(ToWorker, m) for m in TO_WORKER] + [(FromWorker, m) for m in FROM_WORKER],
    ids=lambda value: type(value).__name__,
)
def test_every_message_arrives_as_it_was_sent(kind: Any, message: Any) -> None:
    # Compared as JSON: what is read back may be a list where a tuple was written.
    (arrived,) = read(FrameReader(kind), written(message), [10_000])
    assert type(arrived) is type(message)
    assert msgspec.json.encode(arrived) == msgspec.json.encode(message)


def test_every_message_there_is_was_tried() -> None:
    assert {type(m) for m in TO_WORKER} == set(ToWorker.__args__)
    assert {type(m) for m in FROM_WORKER} == set(FromWorker.__args__)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_where_the_stream_is_cut_changes_nothing(sizes: list[int]) -> None:
    reader: FrameReader[Any] = FrameReader(ToWorker)
    arrived = read(reader, written(*TO_WORKER), sizes)
    assert [type(m) for m in arrived] == [type(m) for m in TO_WORKER]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 400_000), max_size=4), st.integers(5_000, 300_000))
def test_frames_longer_than_the_buffer_arrive_too(lengths: list[int], size: int) -> None:
    sent = [Call(n, "m", {"x": bytes(length)}) for n, length in enumerate(lengths)]
    reader: FrameReader[Any] = FrameReader(ToWorker)
    assert read(reader, written(*sent), [size]) == sent


def test_a_view_given_out_survives_the_frame_that_outgrows_it() -> None:
    reader: FrameReader[Any] = FrameReader(ToWorker)
    frame = written(Call(1, "m", {"x": bytes(500_000)}))
    view = reader.room()
    view[:100_000] = frame[:100_000]
    assert reader.received(100_000) == []
    assert len(view) > 0
    assert len(read(reader, frame[100_000:], [1 << 20])) == 1


def test_a_length_over_the_limit_ends_the_stream_before_memory_is_taken() -> None:
    reader: FrameReader[Any] = FrameReader(ToWorker)
    with pytest.raises(FrameError, match="longer"):
        read(reader, struct.pack("<I", MAX_FRAME_BYTES + 1), [4])


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91\xa4Nope", b"\x93\xa5Hello\x01\x02"])
def test_a_frame_that_holds_no_message_ends_the_stream(payload: bytes) -> None:
    reader: FrameReader[Any] = FrameReader(ToWorker)
    with pytest.raises(FrameError, match="no message"):
        read(reader, struct.pack("<I", len(payload)) + payload, [100])


def test_a_read_only_mapping_arrives_as_a_dict() -> None:
    config = MappingProxyType({"voice": MappingProxyType({"id": "a"})})
    (arrived,) = read(FrameReader(ToWorker), written(Open(StageSession("s", config))), [1000])
    assert arrived.session.config == {"voice": {"id": "a"}}


def test_a_message_that_cannot_be_written_leaves_the_others_whole() -> None:
    writer = FrameWriter()
    writer.add(Ping(1))
    with pytest.raises(TypeError):
        writer.add(Call(1, "m", {"x": object()}))
    with pytest.raises(FrameError, match="longer"):
        writer.add(Call(1, "m", {"x": bytes(MAX_FRAME_BYTES)}))
    writer.add(Ping(2))
    assert read(FrameReader(ToWorker), bytes(writer.take()), [100]) == [Ping(1), Ping(2)]
    assert not writer.take()


@pytest.mark.parametrize(
    ("theirs", "fits"), [("1.0", True), ("1.9", True), ("2.0", False), ("10.0", False)]
)
def test_an_api_fits_within_its_major(theirs: str, fits: bool) -> None:
    assert same_major("1.0", theirs) is fits
