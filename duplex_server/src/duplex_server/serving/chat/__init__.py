"""``POST /v1/chat/completions`` on sessions: each request is one short conversation."""

from __future__ import annotations

from .adapter import DuplexChatCompletionsAdapter, answers_chat

__all__ = ["DuplexChatCompletionsAdapter", "answers_chat"]
