"""The answer of an engine to a request without a session."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

import msgspec
from duplex_sdk.protocol.duplex import ERROR_CODES, ResponseObject

from duplex_server.engine.errors import EngineBusyError, EngineDeadError, RequestFailedError

from .answer import ChatAnswer, ChatPiece
from .refusal import ChatRefusedError

if TYPE_CHECKING:
    from duplex_sdk.audio import OutputEncoder
    from duplex_sdk.stage import TokenUsage

    from duplex_server.entrypoints import AnswerPiece

__all__ = ["EngineAnswer"]

_CUT_SHORT = "length"
"""What a model says when its answer reached the most tokens it may have."""


class EngineAnswer(ChatAnswer):
    """Reads an answer as it is generated.

    Args:
        pieces: of the answer; closed with this object.
        encoder: makes PCM16 of its audio; None: only its words are wanted.
        refused: called with the code when the engine does not take the request.
        new_call_id: makes an id for a call of a function that the model gave none.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[AnswerPiece],
        encoder: OutputEncoder | None,
        *,
        refused: Callable[[str], object],
        new_call_id: Callable[[], str],
    ) -> None:
        self._pieces = pieces
        self._encoder = encoder
        self._refused = refused
        self._new_call_id = new_call_id
        self._ready: deque[ChatPiece] = deque()
        self._usage: TokenUsage | None = None
        self._cut_short = False

    async def begin(self) -> None:
        """Wait until the answer begins.

        Raises:
            ChatRefusedError: nobody can answer now, or the answer failed at once.
        """
        while not self._ready:
            await self._read()

    async def next(self) -> ChatPiece:
        """The next piece; the last one has ``done``.

        Raises:
            ChatRefusedError: the answer failed.
        """
        await self.begin()
        return self._ready.popleft()

    async def close(self) -> None:
        """Stop the answer. Safe to call at any time, and again."""
        await self._pieces.aclose()

    async def _read(self) -> None:
        piece = await self._received()
        if piece is None:
            self._add_audio(b"" if self._encoder is None else self._encoder.flush())
            self._ready.append(self._last_piece())
            return
        self._note(piece)
        call = piece.tool_call
        if call is not None:
            call_id = call.call_id or self._new_call_id()
            named = msgspec.structs.replace(call, call_id=call_id)
            self._ready.append(ChatPiece(tool_call=named))
        if piece.text:
            self._ready.append(ChatPiece(text=piece.text))
        if piece.audio is not None and self._encoder is not None:
            self._add_audio(self._encoder.encode(piece.audio))

    def _note(self, piece: AnswerPiece) -> None:
        """What is told at the end only."""
        if piece.usage is not None:
            self._usage = piece.usage if self._usage is None else self._usage + piece.usage
        self._cut_short |= piece.finish_reason == _CUT_SHORT

    def _last_piece(self) -> ChatPiece:
        return ChatPiece(
            done=ResponseObject(
                id="",
                status="incomplete" if self._cut_short else "completed",
                output_modalities=(),
                usage=None if self._usage is None else self._usage.as_realtime(),
            )
        )

    async def _received(self) -> AnswerPiece | None:
        try:
            return await anext(self._pieces, None)
        except RequestFailedError as error:
            if error.code == "resource_exhausted":
                self._refused(error.code)
            code = error.code if error.code in ERROR_CODES else "engine_error"
            raise ChatRefusedError(code, str(error)) from error
        except EngineDeadError as error:
            raise ChatRefusedError("engine_dead", str(error)) from error
        except EngineBusyError as error:
            self._refused("engine_backpressure")
            raise ChatRefusedError("engine_backpressure", str(error)) from error

    def _add_audio(self, pcm: bytes) -> None:
        if pcm:
            self._ready.append(ChatPiece(audio=pcm))
