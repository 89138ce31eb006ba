"""How a client comes back to its session: backoff, the exchange, and when to give up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from duplex_sdk.protocol.duplex import ResumeRequest, encode_command

from .errors import ClientConnectionError, ClientError, ResumeRefusedError
from .socket import Socket

__all__ = ["Reconnect", "Resumed", "Resumption"]

_FRAME = msgspec.json.Decoder(dict[str, Any])
_FINAL = frozenset(
    {"invalid_session_resume", "session_resume_expired", "unsupported_session_resume"}
)
_FINAL_STATUS = frozenset({400, 401, 403, 404})


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How hard to try to come back after a lost connection.

    Attributes:
        first_delay_s: before the first try; doubled with every further one.
        max_delay_s: longest pause between two tries.
        jitter: share of each pause that is left to chance, so that clients do not come in step.
        attempt_timeout_s: longest wait for one try.
        give_up_s: after so long the session is given up. A server keeps one for its
            ``disconnect_grace_s``; while it cannot be reached, more may be worth it.
    """

    first_delay_s: float = 0.1
    max_delay_s: float = 5.0
    jitter: float = 0.5
    attempt_timeout_s: float = 10.0
    give_up_s: float = 60.0

    def delays(self, chance: Callable[[], float] = random.random) -> Iterator[float]:
        """The pauses before the tries, without end; ``chance`` gives numbers from 0 to 1."""
        delay = self.first_delay_s
        while True:
            yield delay * (1 - self.jitter * chance())
            delay = min(2 * delay, self.max_delay_s)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A connection on which the session goes on.

    Attributes:
        socket: replay follows on it.
        answer: the ``session.resumed`` that was received.
        attempts: connections tried.
    """

    socket: Socket
    answer: dict[str, Any]
    attempts: int


class Resumption:
    """One return to one session. Belongs to the client's loop.

    Args:
        connect: opens a socket.
        request: the session, its newest token, and the last event received.
        reconnect: how hard to try.
        report: called with what the server answered, whether it lets us back or not.
        abandon: takes a socket that is of no use any more.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Socket]],
        request: ResumeRequest,
        reconnect: Reconnect,
        *,
        report: Callable[[dict[str, Any]], None],
        abandon: Callable[[Socket], None],
    ) -> None:
        self._connect = connect
        self._request = request
        self._reconnect = reconnect
        self._report = report
        self._abandon = abandon
        # The server may have taken a token whose successor was lost on the way to us. Until it
        # has noticed, it refuses the token we have; then it is good again.
        self._token_in_doubt = False

    async def run(self) -> Resumed:
        """Try until the session is back.

        Raises:
            ResumeRefusedError: it cannot be continued.
            ClientConnectionError: given up; or the server does not let this client in.
        """
        failure = ClientConnectionError("the connection was lost")
        try:
            async with asyncio.timeout(self._reconnect.give_up_s):
                for attempt, delay in enumerate(self._reconnect.delays(), start=1):
                    await asyncio.sleep(delay)
                    try:
                        return await self._try(attempt)
                    except ClientConnectionError as error:
                        if _hopeless(error):
                            raise
                        failure = error
        except TimeoutError:
            pass
        raise ClientConnectionError(
            f"the connection was lost, and not regained in {self._reconnect.give_up_s:g} s"
        ) from failure

    async def _try(self, attempt: int) -> Resumed:
        try:
            async with asyncio.timeout(self._reconnect.attempt_timeout_s):
                socket = await self._connect()
                try:
                    answer = await self._exchange(socket)
                except BaseException:
                    self._abandon(socket)
                    raise
        except TimeoutError as error:
            raise ClientConnectionError("no answer to a resume") from error
        return Resumed(socket, answer, attempt)

    async def _exchange(self, socket: Socket) -> dict[str, Any]:
        payload = encode_command(self._request)
        await socket.send(msgspec.json.encode(payload).decode())
        doubt, self._token_in_doubt = self._token_in_doubt, True
        try:
            while True:
                answer = _decoded(await socket.recv())
                match answer.get("type"):
                    case "session.resumed":
                        return answer
                    case "session.resync_required":
                        self._report(answer)
                        raise ResumeRefusedError(str(answer.get("reason")), "events were lost")
                    case "error":
                        self._token_in_doubt = doubt
                        self._refuse(answer)
                    case _:
                        pass
        except ClientConnectionError:
            raise
        except ClientError as error:
            # Closed in order, but before it said anything: as good as lost.
            raise ClientConnectionError(f"no answer to a resume: {error}") from error

    def _refuse(self, answer: dict[str, Any]) -> None:
        error = answer.get("error") or {}
        code, message = str(error.get("code")), str(error.get("message"))
        if code in _FINAL or (code == "invalid_resume_token" and not self._token_in_doubt):
            self._report(answer)
            raise ResumeRefusedError(code, message)
        raise ClientConnectionError(f"not resumed yet: {message} ({code})")


def _hopeless(error: ClientConnectionError) -> bool:
    return isinstance(error, ResumeRefusedError) or error.status in _FINAL_STATUS


def _decoded(frame: str | bytes) -> dict[str, Any]:
    try:
        return _FRAME.decode(frame)
    except msgspec.DecodeError:
        return {}
