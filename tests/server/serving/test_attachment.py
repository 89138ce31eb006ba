"""A socket that takes nothing is found out, and costs nobody else anything."""

from __future__ import annotations

import asyncio

import pytest
from duplex_server.serving import RealtimeSocket, SocketGone, attachment
from duplex_server.serving.attachment import Attachment
from duplex_server.serving.resume_key import ResumeKey
from patience import PATIENCE_S
from starlette.responses import Response


class Pipe(RealtimeSocket):
    """Takes messages while it is open; otherwise the sender waits."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.open = asyncio.Event()
        self.closed: list[tuple[int, str]] = []

    async def accept(self) -> None:
        raise NotImplementedError

    async def refuse(self, response: Response) -> None:
        raise NotImplementedError

    async def receive(self) -> str | bytes:
        raise NotImplementedError

    async def send(self, text: str) -> None:
        await self.open.wait()
        self.taken.append(text)

    async def close(self, code: int, reason: str = "") -> None:
        await self.open.wait()
        self.closed.append((code, reason))


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment, "_STALLED_SEND_S", 0.5)
    monkeypatch.setattr(attachment, "_FAREWELL_S", 0.03)


@pytest.mark.usefixtures("short_waits")
async def test_a_send_that_nobody_takes_fails_in_the_end() -> None:
    binding = Attachment(Pipe())
    for _ in range(2):
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(SocketGone):
                await binding.send(b"x")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.usefixtures("short_waits")
async def test_sends_that_each_take_a_while_are_no_stall() -> None:
    pipe = Pipe()
    binding = Attachment(pipe)
    loop = asyncio.get_running_loop()
    for _ in range(6):
        pipe.open.clear()
        loop.call_later(0.1, pipe.open.set)
        await binding.send(b"x")
    assert pipe.taken == ["x"] * 6


@pytest.mark.usefixtures("short_waits")
async def test_a_hurried_send_fails_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment, "_STALLED_SEND_S", 10 * PATIENCE_S)
    binding = Attachment(Pipe())
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, binding.hurry)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(SocketGone):
            await binding.send(b"x")


async def test_who_cancels_a_send_is_told_that_it_was_cancelled() -> None:
    binding = Attachment(Pipe())
    sending = asyncio.create_task(binding.send(b"x"))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.usefixtures("short_waits")
async def test_farewell_to_a_dead_peer_ends_all_the_same() -> None:
    binding = Attachment(Pipe())
    async with asyncio.timeout(PATIENCE_S):
        await binding.say_farewell(b"x", 1000, "session_replaced")
    assert binding.ended.done()


async def test_farewell_is_the_last_message_and_a_close() -> None:
    pipe = Pipe()
    pipe.open.set()
    await Attachment(pipe).say_farewell(b"bye", 1000, "session_replaced")
    assert (pipe.taken, pipe.closed) == (["bye"], [(1000, "session_replaced")])


def test_a_token_is_long_random_and_never_kept() -> None:
    key = ResumeKey()
    token = key.issue()
    assert len(token) == 43
    assert "=" not in token
    assert token != ResumeKey().issue()
    assert token not in repr(vars(key))
    assert key.accepts(token, attached=True)
    assert not ResumeKey().accepts(token, attached=False)


def test_the_presented_token_is_good_for_recovery_alone() -> None:
    key = ResumeKey()
    first = key.issue()
    second = key.exchange(first)
    assert key.accepts(second, attached=True)
    assert not key.accepts(first, attached=True)
    assert key.accepts(first, attached=False)
    third = key.exchange(first)
    assert not key.accepts(second, attached=False)
    key.confirm()
    assert not key.accepts(first, attached=False)
    assert key.accepts(third, attached=False)
