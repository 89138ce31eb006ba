"""Warm-up: the model's first unit is slow, and it should be nobody's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
import zlib
from typing import TYPE_CHECKING

from duplex_sdk.errors import DuplexError
from duplex_sdk.protocol.duplex import AudioDelta, ErrorEvent, ResponseDone, SessionClosed

from duplex_server.runtime.errors import DuplexSessionError

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities

    from .async_omni import AsyncOmni
    from .duplex_omni import DuplexOmni
    from .session_handle import DuplexSessionHandle

__all__ = ["warm_up", "warm_up_turns"]

_log = logging.getLogger(__name__)
_LONGEST_S = 150.0
_UNIT_MS = 80
"""Of a model that has no unit of its own."""
_SETTLE_S = 5.0
_BLEEP_MS = 200
_IMAGE_SIDE = 64


class _WarmupFailedError(Exception):
    """The model did not do what was asked; the message says what came instead."""


async def warm_up(omni: DuplexOmni, *, timeout_s: float = _LONGEST_S) -> bool:
    """Have the model answer once, in a session of its own, before anybody is let in.

    What it is given follows ``warmup_frames``: below 0 nothing; above, so many silent units; at 0
    only a model that needs pictures gets a sound and a picture. A failure is logged with its
    cause and is no reason not to serve.

    Args:
        omni: a started engine.
        timeout_s: longest wait for the first audio.

    Returns:
        Whether the model was warmed up.
    """
    frames = omni.runtime_config.warmup_frames
    capabilities = omni.duplex_capabilities
    needs_video = "video" in capabilities.required_input_modalities
    if frames < 0 or (frames == 0 and not needs_video):
        return False
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            await _talk(omni, capabilities, frames, needs_video=needs_video)
    except TimeoutError:
        _log.warning("warm-up: no audio within %g s; serving all the same", timeout_s)
        return False
    except (DuplexSessionError, _WarmupFailedError) as error:
        _log.warning("warm-up failed: %s; serving all the same", error)
        return False
    _log.info("warmed up in %.1f s", time.monotonic() - began)
    return True


async def warm_up_turns(omni: AsyncOmni, *, timeout_s: float = _LONGEST_S) -> bool:
    """Have a model that hosts no sessions answer once, before anybody is let in.

    A failure is logged with its cause and is no reason not to serve.

    Args:
        omni: a started engine.
        timeout_s: longest wait for the answer.

    Returns:
        Whether the model was warmed up.
    """
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s), contextlib.aclosing(omni.generate("Hello.")) as said:
            async for _ in said:
                pass
    except TimeoutError:
        _log.warning("warm-up: no answer within %g s; serving all the same", timeout_s)
        return False
    except DuplexError as error:
        _log.warning("warm-up failed: %s; serving all the same", error)
        return False
    _log.info("warmed up in %.1f s", time.monotonic() - began)
    return True


async def _talk(
    omni: DuplexOmni, capabilities: DuplexCapabilities, frames: int, *, needs_video: bool
) -> None:
    handle = await omni.open_session()
    try:
        if needs_video:
            sound = _bleep(capabilities.input_sample_rate_hz)
            handle.append_audio(sound, is_speech=True, video_frames=(_image(),))
        else:
            await _append_silence(handle, capabilities, frames)
        if capabilities.supports_client_commit:
            handle.commit(response_create=True)
            await _first_audio(handle)
            return
        # Nothing makes such a model speak: its units are enough.
        unit_s = (capabilities.chunk_period_ms or _UNIT_MS) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(1, frames) * unit_s + _SETTLE_S):
                await _first_audio(handle)
    finally:
        await asyncio.shield(handle.close("client_close"))


async def _append_silence(
    handle: DuplexSessionHandle, capabilities: DuplexCapabilities, frames: int
) -> None:
    unit_ms = capabilities.chunk_period_ms or _UNIT_MS
    unit = bytes(2 * (capabilities.input_sample_rate_hz * unit_ms // 1000))
    for _ in range(frames):
        await handle.wait_for_room(len(unit))
        # Called speech, since a turn of silence is not answered.
        handle.append_audio(unit, is_speech=True)


async def _first_audio(handle: DuplexSessionHandle) -> None:
    async for event in handle.events():
        if isinstance(event, AudioDelta):
            return
        if isinstance(event, ErrorEvent):
            raise _WarmupFailedError(f"{event.error.code}: {event.error.message}")
        if isinstance(event, ResponseDone) and event.response.status != "completed":
            raise _WarmupFailedError(f"the answer ended as {event.response.status}")
        if isinstance(event, ResponseDone):
            return
        if isinstance(event, SessionClosed):
            raise _WarmupFailedError(f"the session ended: {event.reason}")


def _bleep(rate: int) -> bytes:
    """A square wave of some 400 Hz, PCM16: anything but silence."""
    half = max(1, rate // 800)
    period = struct.pack("<h", 6000) * half + struct.pack("<h", -6000) * half
    count = rate * _BLEEP_MS // 1000
    return (period * (count // (2 * half) + 1))[: 2 * count]


def _image() -> bytes:
    """A grey picture, as PNG."""
    row = b"\0" + b"\x80" * _IMAGE_SIDE
    header = struct.pack(">IIBBBBB", _IMAGE_SIDE, _IMAGE_SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _png_chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(row * _IMAGE_SIDE)),
            (b"IEND", b""),
        )
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
