"""A picture for models that see: small, and a true PNG."""

from __future__ import annotations

import struct
import zlib

from duplex_sdk.stage import Image

from .subject import Subject

__all__ = ["PICTURE", "takes_pictures"]

_SIZE = 64


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def _png() -> bytes:
    """Squares in two greys."""
    rows = b"".join(
        b"\0" + bytes(200 if (x // 8 + y // 8) % 2 else 60 for x in range(_SIZE))
        for y in range(_SIZE)
    )
    header = struct.pack(">IIBBBBB", _SIZE, _SIZE, 8, 0, 0, 0, 0)
    chunks = (
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(rows)),
        _chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


PICTURE = Image("image/png", _png())


def takes_pictures(subject: Subject) -> bool:
    """Whether appends to the model may bring camera frames."""
    known = subject.capabilities
    return "video" in (*known.required_input_modalities, *known.optional_input_modalities)
