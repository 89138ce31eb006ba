"""The voices on this server: those of the checkpoint, and those in a folder of one's own."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from duplex_sdk.audio import PcmChunk

from duplex_plugin_personaplex.clip import voice_clip
from duplex_plugin_personaplex.voices import VOICE_FILES, is_voice_name

from .errors import CheckpointError
from .prompt import CodesVoice, ReplayVoice, Voice, check_voice

__all__ = ["UnknownVoiceError", "VoiceBank"]

_DAMAGED = (
    AttributeError,
    EOFError,
    KeyError,
    RuntimeError,
    TypeError,
    pickle.UnpicklingError,
)


class UnknownVoiceError(LookupError):
    """No voice has this name here."""


class VoiceBank:
    """Finds voices by name, and keeps those it has prepared.

    Args:
        bundled: the checkpoint's archive, or the folder unpacked from it.
        own: folder of more voices, which go before the bundled ones; None: none.
        dim: width of the model they are for.
    """

    def __init__(self, bundled: Path, own: Path | None, *, dim: int) -> None:
        self._own = own
        self._dim = dim
        self._files = _archived(bundled) if bundled.is_file() else _in_folder(bundled)
        if own is not None and not own.is_dir():
            raise CheckpointError(f"there is no folder of voices {str(own)!r}")
        self._ready: dict[str, Voice] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        own = () if self._own is None else _in_folder(self._own)
        return tuple(sorted({*self._files, *own}))

    def find(self, name: str) -> Voice | PcmChunk:
        """A voice that is ready, or the recording that is to become one.

        Raises:
            UnknownVoiceError: there is none of this name; names are never paths.
            VoiceClipError: its recording cannot be a voice.
            CheckpointError: its file is damaged.
        """
        ready = self._ready.get(name)
        if ready is not None:
            return ready
        if not is_voice_name(name):
            raise UnknownVoiceError(f"{name!r} is no name of a voice")
        own = {} if self._own is None else _in_folder(self._own)
        read = own.get(name) or self._files.get(name)
        if read is None:
            raise UnknownVoiceError(
                f"there is no voice {name!r}; there are: {', '.join(self.names)}"
            )
        suffix, data = read()
        if suffix == ".wav":
            return voice_clip(data)
        self._ready[name] = voice = check_voice(_replay(data, name), self._dim, name)
        return voice

    def keep(self, name: str, codes: torch.Tensor) -> CodesVoice:
        """Remember the codes ``[8, frames]`` of a recording."""
        self._ready[name] = voice = CodesVoice(codes.cpu())
        return voice


_Read = Callable[[], tuple[str, bytes]]


def _in_folder(folder: Path) -> dict[str, _Read]:
    return {
        path.stem: lambda path=path: (path.suffix, path.read_bytes())  # type: ignore[misc]
        for path in sorted(folder.iterdir())
        if path.suffix in VOICE_FILES and is_voice_name(path.stem)
    }


def _archived(archive: Path) -> dict[str, _Read]:
    try:
        with tarfile.open(archive) as opened:
            members = [member for member in opened.getmembers() if member.isfile()]
    except (OSError, tarfile.TarError) as error:
        raise CheckpointError(f"{archive.name} cannot be read: {error}") from error
    return {
        Path(member.name).stem: lambda name=member.name: (".pt", _member(archive, name))  # type: ignore[misc]
        for member in members
        if member.name.endswith(".pt") and is_voice_name(Path(member.name).stem)
    }


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as opened:
        file = opened.extractfile(name)
        return b"" if file is None else file.read()


def _replay(data: bytes, name: str) -> ReplayVoice:
    try:
        found: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        embeddings, cache = found["embeddings"], found["cache"]
        return ReplayVoice(embeddings.flatten(1), cache.reshape(17, -1))
    except _DAMAGED as error:
        raise CheckpointError(f"the voice {name!r} is damaged: {error}") from error
