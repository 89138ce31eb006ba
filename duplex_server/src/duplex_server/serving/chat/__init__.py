"""``POST /v1/chat/completions``: in short sessions, or by the engine without any."""

from __future__ import annotations

from .adapter import ChatCompletionsAdapter
from .engine_adapter import EngineChatCompletionsAdapter, serves_requests
from .session_adapter import DuplexChatCompletionsAdapter, answers_chat

__all__ = [
    "ChatCompletionsAdapter",
    "DuplexChatCompletionsAdapter",
    "EngineChatCompletionsAdapter",
    "answers_chat",
    "serves_requests",
]
