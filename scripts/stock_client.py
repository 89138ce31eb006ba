"""One spoken turn of OpenAI's own client, unmodified; it knows nothing of us but an address.

usage: stock_client.py HTTP_URL WAV

Speaks the WAV (mono, 16 bits, 24 kHz) in real time with silence behind it, waits for the answer and
prints what came of it as JSON. Needs the package `openai` and none of ours.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
import wave
from typing import Any

from openai import AsyncOpenAI

__all__ = ["converse"]

RATE_HZ = 24_000
PIECE_BYTES = RATE_HZ // 10 * 2
LONGEST_S = 30.0


async def converse(url: str, speech: bytes) -> dict[str, Any]:
    """Say it and listen.

    Args:
        url: of the server, such as http://127.0.0.1:8000.
        speech: PCM16 at 24 kHz.

    Returns:
        How the first response ended, its words, and how long it was heard.

    Raises:
        TimeoutError: no response ended in time.
    """
    client = AsyncOpenAI(api_key="unused", base_url=f"{url}/v1")
    answer: dict[str, Any] = {"status": None, "text": "", "heard_ms": 0.0}
    async with asyncio.timeout(LONGEST_S), client.realtime.connect(model="any") as connection:
        microphone = asyncio.create_task(_speak(connection, speech))
        try:
            async for event in connection:
                if event.type == "response.output_audio.delta":
                    answer["heard_ms"] += len(base64.b64decode(event.delta)) / 2 / RATE_HZ * 1000
                elif event.type == "response.output_audio_transcript.delta":
                    answer["text"] += event.delta
                elif event.type == "response.done":
                    answer["status"] = event.response.status
                    break
                elif event.type == "error":
                    raise RuntimeError(event.error.message)
        finally:
            microphone.cancel()
    return answer


async def _speak(connection: Any, speech: bytes) -> None:
    """A microphone that is never switched off."""
    began = time.monotonic()
    sent = 0
    while True:
        piece = speech[sent : sent + PIECE_BYTES].ljust(PIECE_BYTES, b"\0")
        sent += len(piece)
        await asyncio.sleep(max(0.0, began + sent / 2 / RATE_HZ - time.monotonic()))
        await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())


def main() -> int:
    """Talk to the server that the command line names."""
    url, path = sys.argv[1:]
    with wave.open(path, "rb") as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE_HZ):
            raise SystemExit(f"error: {path} is not mono, 16 bits, {RATE_HZ} Hz")
        speech = file.readframes(file.getnframes())
    print(json.dumps(asyncio.run(converse(url, speech))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
