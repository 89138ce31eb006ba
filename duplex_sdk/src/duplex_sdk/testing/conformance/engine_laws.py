"""Laws of the served plugin: the real engine, over a socket and over none. They need the server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.clients import DuplexClientBase
from duplex_sdk.discovery import load_hooks
from duplex_sdk.protocol.duplex import ErrorEvent

from .breach import breach, does_not_apply, require
from .subject import Subject

__all__ = ["EngineLaws"]

LONGEST_S = 90.0

T = TypeVar("T")


class EngineLaws:
    """An installed server serves the plugin to both of our clients."""

    def test_it_is_served_to_both_clients(self, conformance: Subject) -> None:
        """A turn over a websocket and a turn without one end alike."""
        over_socket, inline = _served(_converse(_harness(), conformance))
        for transport, (status, sounds, errors) in (("socket", over_socket), ("inline", inline)):
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
                sounds == over_socket[1],
                "one client heard an answer and the other did not",
                "make the answer depend on the input alone",
            )

    def test_an_interrupted_answer_gives_way_to_the_next(self, conformance: Subject) -> None:
        """Through the whole pipeline: a cancel in mid-answer, then a turn like any other."""
        if conformance.native:
            does_not_apply("when a native model speaks is its own affair")
        statuses = _served(_interrupt(_harness(), conformance))
        require(
            statuses[0] in ("cancelled", "completed") and statuses[1] == "completed",
            f"an interrupted answer ended {statuses[0]}, the next one {statuses[1]}",
            "cancel() reaches every stage of the pipeline: each drops what it still had to say and"
            " is ready for a new turn",
        )


Told = tuple[str, bool, list[str]]


def _harness() -> Any:
    """What the server lends by the hook ``duplex_test_harness``."""
    harness = load_hooks().manager.hook.duplex_test_harness()
    if harness is None:
        does_not_apply("duplex-server is not installed, so nothing can serve the plugin")
    return harness


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


async def _interrupt(harness: Any, subject: Subject) -> list[str]:
    session = {"turn_detection": None, **subject.settings.session}
    options = dict(subject.settings.options)
    statuses: list[str] = []
    async with asyncio.timeout(LONGEST_S), harness.engine(subject.spec, options) as omni:
        client: DuplexClientBase = harness.inline_client(omni, session)
        async with client:
            answers = client.responses()
            for number in range(2):
                await client.append_audio(float_to_pcm16(subject.turn(number).numpy()))
                await client.commit(response_create=True)
                answer = await anext(answers)
                if number == 0:
                    await anext(answer.audio(), None)
                    await client.cancel_response()
                statuses.append((await answer.wait()).response.status)
    return statuses


async def _converse(harness: Any, subject: Subject) -> tuple[Told, Told]:
    session = {"turn_detection": None, **subject.settings.session}
    options = dict(subject.settings.options)
    async with asyncio.timeout(LONGEST_S), harness.server(subject.spec, options) as server:
        over_socket = await _turn(server.client(session), subject)
        inline = await _turn(harness.inline_client(server.omni, session), subject)
    return over_socket, inline


async def _turn(client: DuplexClientBase, subject: Subject) -> Told:
    async with client:
        events = client.events(size=4096)
        answers = client.responses()
        await client.append_audio(float_to_pcm16(subject.turn(0).numpy()))
        if subject.native:
            await asyncio.sleep(1.0)
            await client.append_audio(bytes(subject.capabilities.input_sample_rate_hz * 2))
            await asyncio.sleep(1.0)
            status, sounds = "", False
        else:
            await client.commit(response_create=True)
            answer = await anext(answers)
            sounds = bool(b"".join([piece async for piece in answer.audio()]))
            status = (await answer.wait()).response.status
    told = [event async for event in events]
    errors = [str(event.error.message) for event in told if isinstance(event, ErrorEvent)]
    return status, sounds, errors
