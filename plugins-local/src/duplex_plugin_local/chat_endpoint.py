"""Replies from an OpenAI-compatible chat endpoint, streamed.

A reply is read on a thread of its own, because a stage must not wait; the stage asks every few
milliseconds what has come.
"""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from duplex_sdk.stage import Json, TokenUsage

__all__ = ["ChatEndpoint", "ChatStream"]

_MAX_LINE = 1 << 20


class ChatEndpoint:
    """Where to ask, and as whom."""

    def __init__(
        self, url: str, model: str, *, key: str | None = None, timeout_s: float = 20.0
    ) -> None:
        """Name the endpoint; nothing is sent yet.

        Args:
            url: base address, with or without ``/chat/completions`` at its end.
            model: the model's name there.
            key: sent as a bearer token; None: none.
            timeout_s: the longest silence before a reply counts as failed.
        """
        self._address = urlsplit(url)
        self._model = model
        self._key = key
        self._timeout_s = timeout_s

    def ask(self, messages: Sequence[Mapping[str, Json]]) -> ChatStream:
        """Start a reply to a conversation. Never raises: failures are in the stream."""
        body = {
            "model": self._model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return ChatStream(self._connection(), self._path(), json.dumps(body), self._headers())

    def _connection(self) -> http.client.HTTPConnection:
        kind = (
            http.client.HTTPSConnection
            if self._address.scheme == "https"
            else http.client.HTTPConnection
        )
        return kind(self._address.hostname or "", self._address.port, timeout=self._timeout_s)

    def _path(self) -> str:
        path = self._address.path.rstrip("/").removesuffix("/chat/completions")
        query = f"?{self._address.query}" if self._address.query else ""
        return f"{path}/chat/completions{query}"

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers


class ChatStream:
    """One reply as it comes.

    Attributes:
        error: why the reply failed, one sentence; None so far.
        usage: what it cost; None: the endpoint does not say, or not yet.
    """

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        body: str,
        headers: Mapping[str, str],
    ) -> None:
        self.error: str | None = None
        self.usage: TokenUsage | None = None
        self._connection = connection
        self._request = (path, body, headers)
        self._pieces: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopped = False
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="chat-reply", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Nothing more will come beyond what ``take`` has not given yet."""
        return not self._thread.is_alive()

    def take(self) -> str:
        """The text that came since the last call."""
        pieces = []
        with suppress(queue.Empty):
            while True:
                pieces.append(self._pieces.get_nowait())
        return "".join(pieces)

    def stop(self, wait_s: float = 0.0) -> None:
        """Hang up; the endpoint stops generating. ``wait_s``: how long to wait for the thread."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if wait_s:
            self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            self._read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._stopped:
                self.error = f"the chat endpoint failed: {error or type(error).__name__}"
        finally:
            self._connection.close()

    def _read(self) -> None:
        path, body, headers = self._request
        self._connection.connect()
        self._socket = self._connection.sock
        if self._stopped:
            return
        self._connection.request("POST", path, body.encode(), dict(headers))
        response = self._connection.getresponse()
        if response.status != http.client.OK:
            detail = response.read(300).decode("utf-8", "replace").strip()
            self.error = f"the chat endpoint answered {response.status} {response.reason}: {detail}"
            return
        while not self._stopped:
            line = response.readline(_MAX_LINE)
            if not line or line.strip() == b"data: [DONE]":
                return
            if line.startswith(b"data:"):
                chunk = json.loads(line[5:])
                self._pieces.put(_text_of_chunk(chunk))
                self.usage = _usage_of_chunk(chunk) or self.usage


def _text_of_chunk(chunk: Json) -> str:
    """The text in one event of the stream.

    Raises:
        ValueError: the endpoint reports an error inside the stream, or sends no object.
    """
    if not isinstance(chunk, dict):
        raise ValueError("a piece of its reply is no object")
    if chunk.get("error"):
        raise ValueError(str(chunk["error"]))
    for choice in chunk.get("choices") or ():
        content = (choice.get("delta") or {}).get("content")
        if content:
            return str(content)
    return ""


def _usage_of_chunk(chunk: Mapping[str, Json]) -> TokenUsage | None:
    usage = chunk.get("usage")
    if not isinstance(usage, dict):
        return None
    asked, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(asked, int) or not isinstance(answered, int):
        return None
    return TokenUsage(asked, answered)
