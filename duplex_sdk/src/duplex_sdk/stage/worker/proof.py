"""How engine and worker prove over a network that they share a secret, without telling it.

The worker's side sends ``GREETING`` and a nonce; the engine answers with a nonce of its own and
its proof; the worker's side says ``WELCOME`` or ``FULL`` with its own proof, or closes without a
word. Whoever listens in learns nothing that is of use in another connection. From then on the
stream is that of any worker, and the secret of its first frame is one that both derive from all
this.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

__all__ = [
    "FULL",
    "GREETING",
    "NONCE_BYTES",
    "PROOF_BYTES",
    "SHORTEST_SECRET",
    "WELCOME",
    "Proofs",
    "proofs_of",
    "same_proof",
]

GREETING = b"duplex-worker/1\n"
NONCE_BYTES = 32
PROOF_BYTES = 32
WELCOME, FULL = b"=", b"+"
"""The verdict: a worker is being started, or there are as many as there may be."""

SHORTEST_SECRET = 16
"""A shorter one could be guessed from what was overheard."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """What belongs to one connection and nobody can make without the secret.

    Attributes:
        engine: by the engine, ``PROOF_BYTES`` long.
        worker: by the worker's side, ``PROOF_BYTES`` long.
        session: secret of the connection's first frame.
    """

    engine: bytes
    worker: bytes
    session: str


def proofs_of(secret: str, worker_nonce: bytes, engine_nonce: bytes) -> Proofs:
    """The proofs of a connection in which these nonces were exchanged."""

    def made(role: bytes) -> hmac.HMAC:
        # The role keeps one side's proof from being sent back to it as the other's.
        return hmac.new(secret.encode(), role + worker_nonce + engine_nonce, "sha256")

    return Proofs(made(b"engine").digest(), made(b"worker").digest(), made(b"session").hexdigest())


def same_proof(one: bytes, other: bytes) -> bool:
    """Whether two proofs are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(one, other)
