"""Sessions as files: one JSON object a line, without the sound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from duplex_sdk.discovery import Observer

__all__ = ["SessionRecorder"]

_SOUND = frozenset({"response.output_audio.delta", "response.audio.delta"})


class SessionRecorder(Observer):
    """Writes ``SESSION_ID.jsonl`` into a folder. It may block: it has a thread of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files: dict[str, TextIO] = {}

    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        """Append one event; the file is closed with the session."""
        if event["type"] in _SOUND:
            event = {key: value for key, value in event.items() if key != "delta"}
        file = self._files.get(session_id)
        if file is None:
            path = self._folder / f"{session_id}.jsonl"
            file = self._files[session_id] = path.open("a", encoding="utf-8")
        print(json.dumps(event), file=file, flush=True)
        if event["type"] == "session.closed":
            self._files.pop(session_id).close()

    def close(self) -> None:
        """Close the files of sessions whose end did not come any more."""
        for file in self._files.values():
            file.close()
