"""The voices on this server: those of the checkpoint, and those in a folder of one's own."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath

import torch
from duplex_sdk.audio import PcmChunk

from duplex_plugin_personaplex.clip import VoiceClipError, voice_clip
from duplex_plugin_personaplex.voices import VOICE_FILES, is_voice_name

from .errors import CheckpointError
from .prompt import CodesVoice, Voice
from .replay_file import read_replay
from .sizes import LmSizes

__all__ = ["UnknownVoiceError", "VoiceBank"]


class UnknownVoiceError(LookupError):
    """No voice has this name here."""


class VoiceBank:
    """All voices, read and checked when it is made: a caller who joins waits for no disk.

    Args:
        bundled: the checkpoint's archive, or the folder unpacked from it.
        own: folder of more voices, which go before the bundled ones; None: none.
        sizes: of the model they are for.

    Raises:
        CheckpointError: one of them cannot be used; names it.
    """

    def __init__(self, bundled: Path, own: Path | None, *, sizes: LmSizes) -> None:
        if own is not None and not own.is_dir():
            raise CheckpointError(f"there is no folder of voices {str(own)!r}")
        sources = [_archived(bundled) if bundled.is_file() else _in_folder(bundled)]
        if own is not None:
            sources.append(_in_folder(own))
        self._voices = {
            file.stem: _voice(file, data, sizes) for source in sources for file, data in source
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._voices))

    def find(self, name: str) -> Voice | PcmChunk:
        """A voice that is ready, or the recording that is to become one.

        Raises:
            UnknownVoiceError: there is none of this name; names are never paths.
        """
        voice = self._voices.get(name)
        if voice is None:
            raise UnknownVoiceError(
                f"there is no voice {name!r}; there are: {', '.join(self.names)}"
            )
        return voice

    def keep(self, name: str, codes: torch.Tensor) -> CodesVoice:
        """Remember the codes ``[8, frames]`` of a recording."""
        self._voices[name] = voice = CodesVoice(codes.cpu())
        return voice


_Files = Iterator[tuple[PurePath, bytes]]


def _in_folder(folder: Path) -> _Files:
    for path in sorted(folder.iterdir()):
        if path.suffix in VOICE_FILES and is_voice_name(path.stem):
            yield path, path.read_bytes()


def _archived(archive: Path) -> _Files:
    """Read in one pass: to find one member is to unpack all before it."""
    try:
        with tarfile.open(archive, "r|*") as opened:
            for member in opened:
                path = PurePath(member.name)
                if member.isfile() and path.suffix == ".pt" and is_voice_name(path.stem):
                    file = opened.extractfile(member)
                    yield path, b"" if file is None else file.read()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise CheckpointError(f"{archive.name} cannot be read: {error}") from error


def _voice(file: PurePath, data: bytes, sizes: LmSizes) -> Voice | PcmChunk:
    if file.suffix == ".pt":
        return read_replay(data, sizes, file.stem)
    try:
        return voice_clip(data)
    except VoiceClipError as error:
        raise CheckpointError(f"{file.name} cannot be a voice: {error}") from error
