"""``DuplexChatCompletionsAdapter``: chat completions for a model that answers in sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.plugin import DuplexConfigError

from duplex_server.runtime.errors import DuplexSessionError

from .adapter import ChatCompletionsAdapter
from .refusal import ChatRefusedError
from .turn import ChatTurn

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities
    from duplex_sdk.session.ids import IdSource

    from duplex_server.entrypoints import DuplexOmni
    from duplex_server.serving.metrics import ServingMetrics

    from .answer import ChatAnswer
    from .request import ChatRequest

__all__ = ["DuplexChatCompletionsAdapter", "answers_chat"]


def answers_chat(capabilities: DuplexCapabilities) -> bool:
    """Whether a model can answer text without being spoken to."""
    return capabilities.supports_text_only_turn or capabilities.text_turn_priming_units > 0


class DuplexChatCompletionsAdapter(ChatCompletionsAdapter):
    """Answers each request in a session of its own, which ends with the request.

    Args:
        omni: the engine.
        metrics: counts what is refused.
        ids: where ids come from.
        max_body_bytes: longest request.
    """

    def __init__(
        self, omni: DuplexOmni, metrics: ServingMetrics, *, ids: IdSource, max_body_bytes: int
    ) -> None:
        super().__init__(omni.served_models, metrics, ids=ids, max_body_bytes=max_body_bytes)
        self._omni = omni

    async def _ask(self, asked: ChatRequest) -> ChatAnswer:
        if asked.uses_tools:
            raise ChatRefusedError("unsupported", "tools are not available here", param="tools")
        try:
            handle = await self._omni.open_session(asked.session, lenient=True)
        except (DuplexSessionError, DuplexConfigError) as error:
            self._count_refusal(error.code)
            raise ChatRefusedError(error.code, error.message, param=error.param) from error
        return ChatTurn(handle, asked.commands)
