"""Laws of the served plugin: the real engine, over a socket and over none. They need the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.clients import DuplexClient, DuplexClientBase, Reconnect, ResponseHandle
from duplex_sdk.discovery import load_hooks
from duplex_sdk.protocol.duplex import ErrorEvent

from .breach import breach, does_not_apply, require
from .fragile_socket import Network
from .subject import Subject

__all__ = ["EngineLaws"]

LONGEST_S = 90.0
AT_ONCE = Reconnect(first_delay_s=0.001, max_delay_s=0.05, give_up_s=20)

T = TypeVar("T")
Talk = Callable[[DuplexClientBase, Subject], Awaitable[T]]


class EngineLaws:
    """An installed server serves the plugin to both of our clients."""

    def test_it_is_served_to_both_clients(self, conformance: Subject) -> None:
        """A turn over a websocket and a turn without one end alike."""
        told = _with_both(conformance, _turn)
        for transport, (status, sounds, errors) in told.items():
            require(
                not errors,
                f"{transport}: the client was told of errors: {'; '.join(errors)}",
                "the log above has the traceback",
            )
            require(
                conformance.native or status == "completed",
                f"{transport}: the response ended {status}",
                "let each answer come to rest",
            )
            require(
                sounds == told["websocket"][1],
                "one client heard an answer and the other did not",
                "make the answer depend on the input alone",
            )

    def test_an_interrupted_answer_gives_way_to_the_next(self, conformance: Subject) -> None:
        """Through the whole pipeline: a cancel in mid-answer, then a turn like any other."""
        if conformance.native:
            does_not_apply("when a native model speaks is its own affair")
        for transport, statuses in _with_both(conformance, _interrupt).items():
            require(
                statuses[0] in ("cancelled", "completed") and statuses[1] == "completed",
                f"{transport}: an interrupted answer ended {statuses[0]}, the next one"
                f" {statuses[1]}",
                "cancel() reaches every stage of the pipeline: each drops what it still had to say"
                " and is ready for a new turn",
            )

    def test_a_broken_connection_is_taken_up_again(self, conformance: Subject) -> None:
        """The socket breaks in mid-answer; the client comes back and hears the rest."""
        conformance.needs("session_resume")
        if conformance.native:
            does_not_apply("what a native model says depends on the silence of the break")
        whole, broken, sockets = _served(_break(_harness(), conformance))
        if sockets == 1:
            does_not_apply("an answer is over before the connection could break")
        require(
            broken == whole,
            f"over a broken connection the answer ended {broken}; over a whole one {whole}",
            "hand out an answer in pieces that can be kept for a client that comes back: what is"
            " said before it can be heard piles up",
        )

    def test_two_clients_are_served_at_once(self, conformance: Subject) -> None:
        """One over a websocket and one without, their turns at the same time."""
        conformance.needs("multi_session")
        told = _served(_side_by_side(_harness(), conformance))
        for number, (status, _, errors) in enumerate(told):
            require(
                not errors and (conformance.native or status == "completed"),
                f"client {number} of two ended {status}; {'; '.join(errors) or 'without errors'}",
                "two sessions are in the models at once: nothing of one may end or hold up the"
                " other",
            )


Told = tuple[str, bool, list[str]]


def _harness() -> Any:
    """What the server lends by the hook ``duplex_test_harness``."""
    for answer in load_hooks().ask("duplex_test_harness"):
        if answer.value is not None:
            return answer.value
    does_not_apply("duplex-server is not installed, so nothing can serve the plugin")


def _with_both(subject: Subject, talk: Talk[T]) -> dict[str, T]:
    """What comes of a conversation with each kind of client, by name."""
    return _served(_one_after_the_other(_harness(), subject, talk))


def _served(conversation: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(conversation)
    except TimeoutError:
        breach(
            f"a served conversation is not over after {LONGEST_S:.0f} s",
            "let the answer come to rest: end_of_turn, or no again_ms in the last output",
        )
    except Exception as error:
        breach(
            f"the plugin is not served: {type(error).__name__}: {error}",
            "try `duplex serve --plugin` with it; the log says more",
        )


def _session(subject: Subject) -> dict[str, Any]:
    return {"turn_detection": None, **subject.usual_session}


def _server(harness: Any, subject: Subject) -> Any:
    return harness.server(subject.spec, dict(subject.settings.options))


async def _one_after_the_other(harness: Any, subject: Subject, talk: Talk[T]) -> dict[str, T]:
    session = _session(subject)
    async with asyncio.timeout(LONGEST_S), _server(harness, subject) as server:
        over_socket = await talk(server.client(session), subject)
        inline = await talk(harness.inline_client(server.omni, session), subject)
    return {"websocket": over_socket, "inline": inline}


async def _side_by_side(harness: Any, subject: Subject) -> list[Told]:
    session = _session(subject)
    async with asyncio.timeout(LONGEST_S), _server(harness, subject) as server:
        clients = (server.client(session), harness.inline_client(server.omni, session))
        return list(await asyncio.gather(*(_turn(client, subject) for client in clients)))


async def _interrupt(client: DuplexClientBase, subject: Subject) -> list[str]:
    statuses: list[str] = []
    async with client:
        answers = client.responses()
        for number in range(2):
            await _say(client, subject, number)
            answer = await anext(answers)
            if number == 0:
                await anext(answer.audio(), None)
                await client.cancel_response()
            statuses.append((await answer.wait()).response.status)
    return statuses


async def _break(harness: Any, subject: Subject) -> tuple[str, str, int]:
    """How an answer ended over a whole connection and over one that broke, and its sockets."""
    session, network = _session(subject), Network()
    async with asyncio.timeout(LONGEST_S), _server(harness, subject) as server:
        whole = await _ending(server.client(session), subject, lambda: None)
        client: DuplexClient = server.client(
            session, reconnect=AT_ONCE, socket_factory=network.open
        )
        broken = await _ending(client, subject, network.cut)
    return whole, broken, network.sockets


async def _ending(client: DuplexClientBase, subject: Subject, begun: Callable[[], None]) -> str:
    """How an answer ended; ``begun`` is called as soon as it has begun."""
    async with client:
        answers = client.responses()
        await _say(client, subject, 0)
        answer = await anext(answers)
        begun()
        status, sounds = await _heard(answer)
    return f"{status}, {'with' if sounds else 'without'} audio"


async def _turn(client: DuplexClientBase, subject: Subject) -> Told:
    async with client:
        events = client.events(size=4096)
        answers = client.responses()
        if subject.native:
            await client.append_audio(float_to_pcm16(subject.turn(0).numpy()))
            await asyncio.sleep(1.0)
            await client.append_audio(bytes(subject.capabilities.input_sample_rate_hz * 2))
            await asyncio.sleep(1.0)
            status, sounds = "", False
        else:
            await _say(client, subject, 0)
            status, sounds = await _heard(await anext(answers))
    told = [event async for event in events]
    errors = [str(event.error.message) for event in told if isinstance(event, ErrorEvent)]
    return status, sounds, errors


async def _say(client: DuplexClientBase, subject: Subject, number: int) -> None:
    await client.append_audio(float_to_pcm16(subject.turn(number).numpy()))
    await client.commit(response_create=True)


async def _heard(answer: ResponseHandle) -> tuple[str, bool]:
    sounds = bool(b"".join([piece async for piece in answer.audio()]))
    return (await answer.wait()).response.status, sounds
