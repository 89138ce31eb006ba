"""Workers for engines on other machines: who may have one, and how many there are."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
import time
from typing import Final

from .address import send_at_once
from .proof import (
    FULL,
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    SHORTEST_SECRET,
    WELCOME,
    Proofs,
    proofs_of,
    same_proof,
)
from .spawned import SpawnedWorker

__all__ = ["WorkerListener"]

logger = logging.getLogger(__name__)

_MOST_UNPROVEN: Final = 16
_BACKLOG: Final = 16
_PAUSE_S: Final = 0.1


class WorkerListener:
    """Starts a worker for each engine that proves to know the secret; the next ones are refused.

    One connection is one worker, in a process that ends with it. Strangers cost a thread for a few
    seconds each, and no process.
    """

    def __init__(
        self,
        listening: socket.socket,
        secret: str,
        *,
        max_workers: int,
        log_level: str = "info",
        proof_timeout_s: float = 5.0,
    ) -> None:
        """Make a listener for a bound socket, which belongs to it from now on.

        Args:
            listening: where engines come to.
            secret: what the engines know.
            max_workers: how many there may be at once.
            log_level: how much workers tell their engines.
            proof_timeout_s: how long a caller may take, all in all, to prove that it knows it.

        Raises:
            ValueError: the secret is too short to withstand guessing.
        """
        if len(secret) < SHORTEST_SECRET:
            raise ValueError(f"the secret needs at least {SHORTEST_SECRET} characters")
        self._listening = listening
        self._secret = secret
        self._max_workers = max_workers
        self._log_level = log_level
        self._proof_timeout_s = proof_timeout_s
        self._lock = threading.Lock()
        self._workers: set[SpawnedWorker] = set()
        self._gone = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._unproven = threading.BoundedSemaphore(_MOST_UNPROVEN)

    @property
    def worker_count(self) -> int:
        """Workers that live, or are about to."""
        with self._lock:
            return len(self._workers)

    def serve(self) -> None:
        """Let engines come until ``close``; blocks the calling thread."""
        self._listening.listen(_BACKLOG)
        while not self._closing.is_set():
            self._unproven.acquire()
            try:
                stream, (host, port, *_) = self._listening.accept()
            except OSError:
                # Closed, or no more descriptors; a pause, lest it be tried without end.
                self._unproven.release()
                self._closing.wait(_PAUSE_S)
                continue
            caller = f"{host}:{port}"
            threading.Thread(
                target=self._admit, args=(stream, caller), name=f"caller-{caller}", daemon=True
            ).start()

    def close(self) -> None:
        """Let nobody in any more and end all workers; returns when they are gone."""
        with self._lock:
            # Whoever is let in after that sees it.
            self._closing.set()
        # Closing alone does not wake whoever waits in ``accept``.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._gone:
            for worker in self._workers:
                worker.kill()
            self._gone.wait_for(lambda: not self._workers)

    def _admit(self, stream: socket.socket, caller: str) -> None:
        try:
            proofs = self._proven(stream)
            if proofs is None:
                logger.warning("%s does not know the secret", caller)
                stream.close()
            else:
                self._start_worker(stream, caller, proofs)
        except OSError as error:
            logger.warning("%s: %s", caller, error)
            stream.close()
        finally:
            self._unproven.release()

    def _proven(self, stream: socket.socket) -> Proofs | None:
        """What belongs to this connection; None: the caller could not prove anything."""
        deadline = time.monotonic() + self._proof_timeout_s
        stream.settimeout(self._proof_timeout_s)
        nonce = secrets.token_bytes(NONCE_BYTES)
        stream.sendall(GREETING + nonce)
        answer = _exactly(stream, NONCE_BYTES + PROOF_BYTES, deadline)
        proofs = proofs_of(self._secret, nonce, answer[:NONCE_BYTES])
        return proofs if same_proof(answer[NONCE_BYTES:], proofs.engine) else None

    def _start_worker(self, stream: socket.socket, caller: str, proofs: Proofs) -> None:
        worker = self._make_worker(stream, caller, proofs)
        with self._lock:
            full = self._closing.is_set() or len(self._workers) >= self._max_workers
            if not full:
                self._workers.add(worker)
        if full:
            stream.sendall(FULL + proofs.worker)
            stream.close()
            logger.warning("%s: all %d workers are taken", caller, self._max_workers)
            return
        try:
            stream.sendall(WELCOME + proofs.worker)
        except OSError:
            self._forget(worker)
            raise
        logger.info("%s has a worker", caller)
        worker.start()

    def _make_worker(self, stream: socket.socket, caller: str, proofs: Proofs) -> SpawnedWorker:
        send_at_once(stream)
        _notice_lost_peers(stream)
        # The process shares this setting with us.
        stream.settimeout(None)
        return SpawnedWorker(
            stream,
            proofs.session,
            name=f"worker of {caller}",
            log_level=self._log_level,
            on_line=lambda line: logger.info("%s: %s", caller, line),
            on_end=self._on_end,
        )

    def _on_end(self, worker: SpawnedWorker) -> None:
        logger.info("%s: %s", worker.name, worker.describe_end())
        self._forget(worker)

    def _forget(self, worker: SpawnedWorker) -> None:
        with self._gone:
            self._workers.discard(worker)
            self._gone.notify_all()


def _exactly(stream: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes, all of them in time: who sends one now and then keeps a place from others."""
    received = bytearray()
    while len(received) < count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("it proved nothing in time")
        stream.settimeout(left)
        piece = stream.recv(count - len(received))
        if not piece:
            raise ConnectionError("it left before it had proven anything")
        received += piece
    return bytes(received)


def _notice_lost_peers(stream: socket.socket) -> None:
    """Have the stream end some seconds after the other machine fell silent without a word."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
