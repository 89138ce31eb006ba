"""A worker on another machine: found by its address, proven, and connected."""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import dataclass, field

from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.worker.address import host_and_port, send_at_once
from duplex_sdk.stage.worker.proof import (
    FULL,
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    WELCOME,
    Proofs,
    proofs_of,
    same_proof,
)

from .running_worker import RunningWorker
from .worker_channel import ChannelOwner, WorkerChannel

__all__ = ["RemotePlace", "RemoteWorker", "reach_worker"]

APPEAR_TIMEOUT_S = 10.0
"""How long a machine that does not answer yet is waited for."""

_RETRY_S = 0.1
_PROOF_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """Where ``duplex worker`` listens, and what both sides know.

    Attributes:
        address: ``HOST:PORT``.
        secret: the one that it was started with.
    """

    address: str
    secret: str = field(repr=False)


class RemoteWorker(RunningWorker):
    """A worker of which there is nothing here but the stream: with it the worker ends, too."""

    def __init__(self, address: str, secret: str, owner: ChannelOwner) -> None:
        """``secret``: of this connection; ``owner``: hears what comes over the channel."""
        self.exited = asyncio.get_running_loop().create_future()
        self.secret = secret
        self.channel = WorkerChannel(owner)
        self._address = address

    @property
    def pid(self) -> int | None:
        """None: it is no process of this machine."""
        return None

    @property
    def end_and_last_line(self) -> str:
        """See ``RunningWorker``; what it printed is in the log over there."""
        return self.describe_end()

    def describe_end(self) -> str:
        """See ``RunningWorker``."""
        return f"the stream to {self._address} ended"

    def kill(self) -> None:
        """See ``RunningWorker``; whoever started it sees the stream end and ends it."""
        assert self.channel is not None
        self.channel.abort()

    def lost(self) -> None:
        """See ``RunningWorker``."""
        if not self.exited.done():
            self.exited.set_result(None)


async def reach_worker(
    owner: ChannelOwner,
    place: RemotePlace,
    *,
    name: str,
    appear_timeout_s: float = APPEAR_TIMEOUT_S,
) -> RemoteWorker:
    """Have a worker started there and connect to it.

    Args:
        owner: hears what comes over the channel.
        place: where.
        name: for people.
        appear_timeout_s: how long to wait for somebody to listen there.

    Raises:
        StageLoadError: nobody listens there, it is no worker's place or knows another secret, or
            no worker is free.
    """
    stream = await _connected(place.address, name, appear_timeout_s)
    try:
        async with asyncio.timeout(_PROOF_TIMEOUT_S):
            proofs = await _proven(stream, place, name)
        worker = RemoteWorker(place.address, proofs.session, owner)
        channel = worker.channel
        assert channel is not None
        await asyncio.get_running_loop().create_connection(lambda: channel, sock=stream)
    except TimeoutError:
        stream.close()
        raise StageLoadError(f"{name}: {place.address} does not answer") from None
    except OSError as error:
        stream.close()
        raise StageLoadError(f"{name}: {place.address}: {error}") from error
    except BaseException:
        stream.close()
        raise
    return worker


async def _connected(address: str, name: str, patience_s: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    host, port = host_and_port(address)
    deadline = loop.time() + patience_s
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await _try_to_connect(host, port)
        except TimeoutError:
            error: OSError = TimeoutError("nobody answers")
        except OSError as failure:
            error = failure
        if loop.time() + _RETRY_S >= deadline:
            raise StageLoadError(
                f"{name}: no worker at {address}: {error.strerror or error}",
                f"start one there: duplex worker --listen {address}",
            ) from error
        await asyncio.sleep(_RETRY_S)


async def _try_to_connect(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = found[0]
    stream = socket.socket(family, kind, protocol)
    try:
        stream.setblocking(False)
        await loop.sock_connect(stream, address)
        send_at_once(stream)
    except BaseException:
        stream.close()
        raise
    return stream


async def _proven(stream: socket.socket, place: RemotePlace, name: str) -> Proofs:
    loop = asyncio.get_running_loop()
    greeting = await _exactly(stream, len(GREETING) + NONCE_BYTES)
    if not greeting.startswith(GREETING):
        raise StageLoadError(
            f"{name}: what listens at {place.address} is no duplex worker of this version",
            "install the same version of duplex-sdk on both machines",
        )
    nonce = secrets.token_bytes(NONCE_BYTES)
    proofs = proofs_of(place.secret, greeting[len(GREETING) :], nonce)
    await loop.sock_sendall(stream, nonce + proofs.engine)
    verdict = await _exactly(stream, len(WELCOME) + PROOF_BYTES)
    if not verdict or not same_proof(verdict[len(WELCOME) :], proofs.worker):
        raise StageLoadError(
            f"{name}: the workers at {place.address} know another secret",
            "set DUPLEX_WORKER_SECRET to the same text on both machines",
        )
    if verdict.startswith(FULL):
        raise StageLoadError(
            f"{name}: all workers at {place.address} are taken",
            "allow more there: duplex worker --max-workers N",
        )
    return proofs


async def _exactly(stream: socket.socket, count: int) -> bytes:
    """So many bytes; none when the stream ends before."""
    received = bytearray()
    while len(received) < count:
        piece = await asyncio.get_running_loop().sock_recv(stream, count - len(received))
        if not piece:
            return b""
        received += piece
    return bytes(received)
