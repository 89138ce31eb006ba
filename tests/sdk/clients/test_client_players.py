"""Players by the clock and by the application, and what the server is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.clients import (
    ApplicationPlayer,
    ClockPlayer,
    DuplexClient,
    PlaybackQueue,
    PlayedAudio,
    Player,
)
from duplex_sdk.protocol.duplex import AudioDelta, encode_base64

InVirtualTime = Callable[[Callable[[], Any]], Any]
BYTES_PER_MS = 48


def delta(identity: str, ms: int, epoch: int = 0) -> AudioDelta:
    return AudioDelta(
        response_id=identity,
        item_id=f"item_{identity}",
        delta=bytes(ms * BYTES_PER_MS),
        epoch=epoch,
        format="pcm16",
        sample_rate_hz=24_000,
    )


def says_delta(socket: Any, identity: str, ms: int) -> None:
    socket.says(
        "response.output_audio.delta",
        response_id=identity,
        item_id=f"item_{identity}",
        output_index=0,
        content_index=0,
        delta=encode_base64(bytes(ms * BYTES_PER_MS)),
        format="pcm16",
        sample_rate_hz=24_000,
    )


def says_created(socket: Any, identity: str) -> None:
    response = {"id": identity, "status": "in_progress", "output_modalities": ["audio"]}
    socket.says("response.created", response_id=identity, response=response)


def says_done(socket: Any, identity: str, status: str = "completed") -> None:
    response = {"id": identity, "status": status, "output_modalities": ["audio"]}
    socket.says("response.done", response_id=identity, response=response)


class Timed(ClockPlayer):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now)
        self.put_out: list[int] = []
        self.silenced: list[str] = []

    def output(self, audio: AudioDelta) -> None:
        self.put_out.append(len(audio.delta) // BYTES_PER_MS)

    def silence(self, response_id: str) -> None:
        self.silenced.append(response_id)


def positions(player: Player) -> dict[str, int]:
    return {report.response_id: report.played_ms for report in player.reports()}


def test_clock_counts_from_the_first_audio() -> None:
    player = Timed()
    player.now = 5.0
    player.feed(delta("r", 500))
    assert player.reports() == ()
    player.now = 5.2
    assert player.reports() == (PlayedAudio("r", "item_r", 200, cut=False),)
    assert player.put_out == [500]


def test_time_without_audio_is_silence() -> None:
    player = Timed()
    player.feed(delta("r", 100))
    player.now = 1.0
    assert positions(player) == {"r": 100}
    player.feed(delta("r", 100))
    player.now = 1.05
    assert positions(player) == {"r": 150}


def test_next_response_begins_when_the_one_before_is_over() -> None:
    player = Timed()
    player.feed(delta("first", 100))
    player.feed(delta("second", 100))
    player.now = 0.15
    assert positions(player) == {"first": 100}
    player.end("first")
    player.now = 0.19
    assert positions(player) == {"first": 100, "second": 40}
    player.end("second")
    assert not player.silent
    player.now = 1.0
    assert positions(player) == {"second": 100}
    assert player.silent


def test_stop_silences_one_response_or_all() -> None:
    player = Timed()
    player.feed(delta("first", 100))
    player.feed(delta("second", 100))
    player.now = 0.03
    player.stop("first")
    assert player.reports() == (PlayedAudio("first", "item_first", 30, cut=True),)
    player.stop(None)
    assert player.reports() == (PlayedAudio("second", "item_second", 0, cut=True),)
    assert player.silenced == ["first", "second"]
    assert player.silent


class Told(ApplicationPlayer):
    def __init__(self) -> None:
        super().__init__()
        self.device_ms: int | None = None

    def output(self, audio: AudioDelta) -> None:
        del audio

    def silence(self, response_id: str) -> int | None:
        del response_id
        return self.device_ms


def test_application_says_how_far_it_is() -> None:
    player = Told()
    player.feed(delta("r", 500))
    assert player.reports() == ()
    player.heard("r", 120)
    player.heard("r", 90)  # a late word takes nothing back
    assert player.reports() == (PlayedAudio("r", "item_r", 120, cut=False),)
    assert player.reports() == ()
    player.heard("r", 9_000)  # nor can more be heard than there is
    player.end("r")
    assert positions(player) == {"r": 500}
    assert player.silent
    player.heard("r", 10)
    assert player.reports() == ()


@pytest.mark.parametrize(("device_ms", "expected"), [(None, 120), (180, 180)])
def test_stopped_application_says_what_was_heard(device_ms: int | None, expected: int) -> None:
    player = Told()
    player.feed(delta("r", 500))
    player.heard("r", 120)
    player.device_ms = device_ms
    player.stop("r")
    assert player.reports() == (PlayedAudio("r", "item_r", expected, cut=True),)
    assert player.silent


# What the server is told


def told(socket: Any) -> list[tuple[str, float]]:
    return [(f["response_id"], f["played_ms"]) for f in socket.sent_of("playback.ack")]


@pytest.fixture
def talk(
    in_virtual_time: InVirtualTime, socket: Any, client: DuplexClient
) -> Callable[[Any], None]:
    def run(conversation: Any) -> None:
        async def main() -> None:
            socket.says_created()
            await client.open()
            try:
                await conversation(client, socket)
            finally:
                await client.close(timeout_s=0)

        in_virtual_time(main)

    return run


def test_position_is_told_at_intervals_from_zero_to_the_end(talk: Any) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        loop = asyncio.get_running_loop()

        class Speaker(Timed):
            def __init__(self) -> None:
                super().__init__()
                self._clock = loop.time
                self._at = loop.time()

        client.attach(Speaker(), report_interval_s=0.25)
        says_created(socket, "r")
        says_delta(socket, "r", 600)
        says_done(socket, "r")
        await asyncio.sleep(5)
        assert [r for r, _ in told(socket)] == ["r"] * 4
        assert [ms for _, ms in told(socket)] == pytest.approx([0, 250, 500, 600], abs=1)

    talk(conversation)


def test_nothing_is_told_while_nothing_plays(talk: Any) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        client.attach(PlaybackQueue())
        await asyncio.sleep(60)
        says_delta(socket, "r", 100)
        await asyncio.sleep(60)
        assert told(socket) == [("r", 0)]

    talk(conversation)


def test_stop_is_told_at_once(talk: Any) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=100)
        says_delta(socket, "r", 400)
        await asyncio.sleep(1)
        queue.read(100 * BYTES_PER_MS)
        says_done(socket, "r", "cancelled")
        await asyncio.sleep(0.01)
        assert told(socket) == [("r", 0), ("r", 100)]

    talk(conversation)


def test_interrupt_falls_silent_before_it_asks_and_stays_so(talk: Any) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=100)
        says_created(socket, "r")
        says_delta(socket, "r", 400)
        await asyncio.sleep(1)
        queue.read(100 * BYTES_PER_MS)
        interrupting = asyncio.create_task(client.interrupt())
        await asyncio.sleep(0.01)
        assert queue.silent
        assert socket.sent_types()[-2:] == ["playback.ack", "output_audio_buffer.clear"]
        assert told(socket)[-1] == ("r", 100)
        says_delta(socket, "r", 400)  # was on its way
        await asyncio.sleep(0.01)
        assert queue.silent
        socket.says("output_audio_buffer.cleared", response_id="r")
        says_done(socket, "r", "cancelled")
        await interrupting
        says_delta(socket, "next", 400)
        await asyncio.sleep(0.01)
        assert not queue.silent

    talk(conversation)


def test_last_position_is_told_before_the_session_is_closed(talk: Any) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=100)
        says_delta(socket, "r", 400)
        await asyncio.sleep(1)
        queue.read(100 * BYTES_PER_MS)
        socket.says("session.closed", session_id="s", epoch=0, reason="client_close", event={})
        await client.close()
        assert socket.sent_types()[-2:] == ["playback.ack", "session.close"]
        assert told(socket)[-1] == ("r", 100)

    talk(conversation)


class Broken(PlaybackQueue):
    def play(self, audio: AudioDelta) -> None:
        raise OSError("the device is gone")


class Speechless(PlaybackQueue):
    def reports(self) -> tuple[PlayedAudio, ...]:
        raise OSError("the device is gone")


@pytest.mark.parametrize("broken", [Broken, Speechless])
def test_player_that_fails_harms_nobody_else(
    talk: Any, caplog: pytest.LogCaptureFixture, broken: type[Player]
) -> None:
    async def conversation(client: DuplexClient, socket: Any) -> None:
        sound = PlaybackQueue()
        client.attach(broken())
        client.attach(sound)
        events = client.events()
        for _ in range(3):
            says_delta(socket, "r", 100)
        await asyncio.sleep(0.01)
        assert len(events) == 3
        assert sound.waiting_ms == 300
        assert len(caplog.records) == 1
        assert "the device is gone" in caplog.text

    talk(conversation)
