"""Our client on a network that fails, against a real server: the conversation does not notice.

``DUPLEX_RUDE_ROUNDS=500`` runs the full length.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import (
    ClientConnectionError,
    ClientProtocolError,
    ConnectionLost,
    ConnectionResumed,
    DuplexClient,
    PlaybackQueue,
    Reconnect,
    ResumeRefusedError,
    Socket,
)
from duplex_sdk.clients.library_socket import WebSocket
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    PlaybackAcknowledged,
    ResponseDone,
    SessionHeartbeatAck,
    SessionResumed,
)
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = int(os.environ.get("DUPLEX_RUDE_ROUNDS", "60")) // 3
AT_ONCE = Reconnect(first_delay_s=0.001, max_delay_s=0.05, give_up_s=PATIENCE_S)
SILENT_S = 1.0
"""A server that says nothing for so long counts as gone; a busy one must not."""
ANSWER_MS = 600
SCRIPT = {
    "turns": "commit",
    "pace": "burst",
    "answers": [{"text": "one two three four", "ms": ANSWER_MS, "delay_ms": 0}],
}
ID = re.compile(r"(?:duplex-|(?:event|item|resp)_(?:resp_)?)[0-9a-f]{32}|client_\d+")
ABOUT_THE_CONNECTION = (ConnectionLost, ConnectionResumed, SessionResumed)

Fails = Callable[[int, int], bool]
"""Whether the connection fails, by how many frames came and went over all sockets so far."""


def never(came: int, went: int) -> bool:
    del came, went
    return False


class Network:
    """Opens real sockets that fail when they are told to.

    Attributes:
        came, went: frames so far.
        sockets: connections opened.
        mute: from now on nothing comes and nothing arrives, and nobody says so.
    """

    def __init__(self, before: Fails = never, after: Fails = never) -> None:
        self.before = before
        self.after = after
        self.came = 0
        self.went = 0
        self.sockets = 0
        self.mute = False

    async def open(self, url: str, headers: Mapping[str, str]) -> Socket:
        self.sockets += 1
        self.mute = False
        return FragileSocket(await WebSocket.connect(url, headers), self)


class FragileSocket(Socket):
    def __init__(self, sound: WebSocket, network: Network) -> None:
        self._sound = sound
        self._network = network
        self._broken = False

    async def send(self, frame: str) -> None:
        network = self._network
        if network.mute:
            return
        if self._broken or network.before(network.came, network.went):
            raise self._cut()
        network.went += 1
        await self._sound.send(frame)
        if network.after(network.came, network.went):
            self._cut()

    async def recv(self) -> str | bytes:
        network = self._network
        while True:
            frame = await self._sound.recv()
            if network.mute:
                await asyncio.Event().wait()
            if network.before(network.came, network.went):
                raise self._cut()
            network.came += 1
            return frame

    async def close(self) -> None:
        await self._sound.close()

    def _cut(self) -> ClientConnectionError:
        # What was sent still arrives; no close frame does.
        self._broken = True
        self._sound._connection.transport.close()
        return ClientConnectionError("cut")


@asynccontextmanager
async def running() -> AsyncIterator[RunningServer]:
    limits = DuplexSessionRuntimeConfig(max_sessions=4)
    async with Harness().server("scripted", {"script": SCRIPT}, limits=limits) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    async with running() as it:
        yield it


async def turn(client: DuplexClient) -> None:
    """One question and its answer, each step confirmed; then a refusal, and an item."""
    async with asyncio.timeout(PATIENCE_S):
        events = client.events()
        await client.append_audio(tone(100, 16_000), is_speech=True)
        await (await client.commit()).acknowledged()
        await (await client.create_response()).acknowledged()
        async for event in events:
            if isinstance(event, ResponseDone):
                break
        events.close()
        with pytest.raises(ClientProtocolError, match="input_audio_buffer_commit_empty"):
            await (await client.commit()).acknowledged()
        await (await client.send_text("and then?")).acknowledged()


async def conversation(server: RunningServer, network: Network) -> list[DuplexEvent]:
    client = server.client(reconnect=AT_ONCE, heartbeat_s=None, socket_factory=network.open)
    seen = client.events(size=4096)
    async with client:
        await turn(client)
        answered = asyncio.create_task(client.wait_for(SessionHeartbeatAck, PATIENCE_S))
        await client.send({"type": "session.heartbeat"})
        await answered
        network.before = network.after = never
    return [event async for event in seen]


def comparable(events: list[DuplexEvent]) -> list[Any]:
    """What the session said: ids replaced by the order of their first appearance."""
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"id{len(names)}")

    said = [e.to_realtime() for e in events if not isinstance(e, ABOUT_THE_CONNECTION)]
    for event in said:
        event.pop("event_id")
        event.pop("resume_token", None)
        if event["type"] == AudioDelta.type:
            event["delta"] = len(event["delta"])  # it tells by its sound which session it is of
    plain: list[Any] = json.loads(ID.sub(name, json.dumps(said, sort_keys=True)))
    return plain


def at(came: int | None = None, went: int | None = None) -> Fails:
    """Fail once, when so many frames came, or went."""
    failed = False

    def fails(now_came: int, now_went: int) -> bool:
        nonlocal failed
        if failed or now_came != (came if came is not None else now_came):
            return False
        if went is not None and now_went != went:
            return False
        failed = True
        return True

    return fails


@pytest.mark.timeout(120)
async def test_cut_at_any_frame_changes_nothing_in_the_conversation(
    server: RunningServer,
) -> None:
    undisturbed = Network()
    expected = comparable(await conversation(server, undisturbed))
    cuts = [("before", "came", n) for n in range(2, undisturbed.came - 1)]
    cuts += [("before", "went", n) for n in range(2, undisturbed.went - 1)]
    cuts += [("after", "went", n) for n in range(2, undisturbed.went - 1)]
    assert len(cuts) > 30
    for when, which, number in cuts:
        network = Network(**{when: at(**{which: number})})
        events = await conversation(server, network)
        assert comparable(events) == expected, (when, which, number)
        assert network.sockets == 2, (when, which, number)
        assert sum(isinstance(event, ConnectionResumed) for event in events) == 1


@pytest.mark.timeout(300)
async def test_every_answer_is_whole_on_a_network_that_fails_all_the_time(
    server: RunningServer,
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    network = Network(before=lambda came, _: came > 2 and chance.random() < 0.05)
    client = server.client(reconnect=AT_ONCE, heartbeat_s=None, socket_factory=network.open)
    seen = client.events(size=100_000)
    async with client:
        for _ in range(TURNS):
            await turn(client)
        network.before = never
    events = [event async for event in seen]
    ids = [event.event_id for event in events if event.event_id]
    assert len(set(ids)) == len(ids)
    assert network.sockets > TURNS
    audio: dict[str, int] = {}
    for event in events:
        if isinstance(event, AudioDelta):
            audio[event.response_id] = audio.get(event.response_id, 0) + len(event.delta)
    assert list(audio.values()) == [24_000 * 2 * ANSWER_MS // 1000] * TURNS


async def test_dead_connection_is_noticed_and_replaced(server: RunningServer) -> None:
    network = Network()
    client = server.client(
        reconnect=AT_ONCE,
        heartbeat_s=0.1,
        heartbeat_timeout_s=SILENT_S,
        socket_factory=network.open,
    )
    async with client:
        events = client.events()
        network.mute = True
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, ConnectionResumed):
                    break
        assert event.attachment_generation == 2
        await turn(client)


async def test_server_that_was_stopped_for_a_while_is_come_back_to() -> None:
    patient = Reconnect(
        first_delay_s=0.01, max_delay_s=0.1, attempt_timeout_s=SILENT_S, give_up_s=PATIENCE_S
    )
    async with ServerProcess("--plugin", "scripted", "--max-sessions", "1") as frozen:
        client = DuplexClient(
            frozen.url, reconnect=patient, heartbeat_s=0.1, heartbeat_timeout_s=SILENT_S
        )
        async with client, asyncio.timeout(PATIENCE_S):
            events = client.events(size=4096)
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                await client.append_audio(tone(100, 16_000), is_speech=True)
                async for event in events:
                    if isinstance(event, ConnectionLost):
                        break
                # Some tries are under way: the server will see them all at once.
                await asyncio.sleep(2 * SILENT_S)
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
            committed = await (await client.commit()).acknowledged()
            assert committed.item_id
            after = [await anext(events) for _ in range(len(events))]
        assert sum(isinstance(event, ConnectionResumed) for event in after) == 1


async def test_reports_of_the_player_reach_the_history(server: RunningServer) -> None:
    client = server.client()
    async with client:
        events = client.events()
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=0.02)
        await client.append_audio(tone(100, 16_000), is_speech=True)
        await client.commit(response_create=True)
        heard: list[float] = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, PlaybackAcknowledged):
                    heard.append(event.event["played_ms"])
                    while queue.read(4800):
                        pass
                if heard and heard[-1] == ANSWER_MS:
                    break
    assert heard[0] == 0


async def test_interrupt_silences_and_tells_what_was_heard(server: RunningServer) -> None:
    client = server.client()
    async with client:
        events = client.events()
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=60)
        await client.append_audio(tone(100, 16_000), is_speech=True)
        await client.commit(response_create=True)
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, ResponseDone):
                    break
            item_id = f"item_{event.response_id}"
            wanted = 24_000 * 2 * 150 // 1000  # 150 ms of 600
            while wanted:
                wanted -= len(queue.read(wanted))
            cleared = await client.interrupt()
            assert cleared.response_id == event.response_id
            assert queue.read(4800) == b""
            kept = await (await client.retrieve_item(item_id)).acknowledged()
    [part] = kept.item.content
    assert part.transcript == "one"


async def test_server_that_was_restarted_knows_nothing_of_the_session() -> None:
    async with ServerProcess("--plugin", "scripted", "--max-sessions", "2") as first:
        client = DuplexClient(first.url, reconnect=AT_ONCE)
        await client.open()
        events = client.events()
        port = first.url.rsplit(":", 1)[1]
        first.kill()
    async with ServerProcess("--plugin", "scripted", "--port", port) as second:
        assert second.url == first.url
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ResumeRefusedError) as refused:
                async for _ in events:
                    pass
        assert refused.value.code == "session_resume_expired"
        await client.close()


async def test_stock_profile_confirms_and_ends_in_order(server: RunningServer) -> None:
    client = server.client({"turn_detection": None}, duplex=False)
    async with asyncio.timeout(PATIENCE_S):
        async with client:
            events = client.events()
            await client.append_audio(tone(200, 24_000))
            await (await client.commit()).acknowledged()
            created = await (await client.create_response()).acknowledged()
            assert (await client.interrupt()).response_id == created.response_id  # type: ignore[union-attr]
        rest = [event async for event in events]
    assert any(isinstance(event, ResponseDone) for event in rest)
    assert not any(isinstance(event, ABOUT_THE_CONNECTION) for event in rest)
