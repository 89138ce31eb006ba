"""Where a checkpoint lies: in a folder, or on the hub."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import CheckpointError

__all__ = ["HUB_ID", "CheckpointFiles", "find_checkpoint"]

HUB_ID = "nvidia/personaplex-7b-v1"
LM_NAME = "model.safetensors"
MIMI_NAME = "tokenizer-e351c8d8-checkpoint125.safetensors"
TEXT_NAME = "tokenizer_spm_32k_3.model"
VOICES_NAME = "voices.tgz"
NEEDED = (LM_NAME, MIMI_NAME, TEXT_NAME, VOICES_NAME)

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)

Download = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of a checkpoint. ``voices`` may be an archive or the folder unpacked from it."""

    folder: Path

    @property
    def lm(self) -> Path:
        """The language model."""
        return self.folder / LM_NAME

    @property
    def mimi(self) -> Path:
        """The codec."""
        return self.folder / MIMI_NAME

    @property
    def text(self) -> Path:
        """The text tokenizer."""
        return self.folder / TEXT_NAME

    @property
    def voices(self) -> Path:
        """The voices."""
        unpacked = self.folder / "voices"
        return unpacked if unpacked.is_dir() else self.folder / VOICES_NAME

    def require(self) -> None:
        """Make sure that all files are there.

        Raises:
            CheckpointError: names the first that is not.
        """
        for path in (self.lm, self.mimi, self.text, self.voices):
            if not path.exists():
                raise CheckpointError(
                    f"the checkpoint folder {self.folder} has no {path.name}",
                    hint=f"it needs {', '.join(NEEDED)}",
                )


def find_checkpoint(name: str, download: Download | None = None) -> CheckpointFiles:
    """The files of a checkpoint, fetched from the hub when it is no folder.

    Args:
        name: a folder, or a hub id.
        download: fetches a file of a repository and returns its path; by default the hub's client.

    Raises:
        CheckpointError: not there, or not to be had, with the steps that help.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        files = CheckpointFiles(folder)
    elif _HUB_ID.fullmatch(name) and not folder.exists():
        files = CheckpointFiles(_fetched(name, download or _hub_download))
    else:
        raise _no_folder(name)
    files.require()
    return files


def _hub_download(repository: str, file: str) -> str:
    from huggingface_hub import hf_hub_download

    return str(hf_hub_download(repository, file))


def _fetched(repository: str, download: Download) -> Path:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        paths = [Path(download(repository, file)) for file in NEEDED]
    except GatedRepoError as error:
        raise _gated(repository, "is gated") from error
    except LocalEntryNotFoundError as error:
        raise CheckpointError(
            f"{repository} is no folder, nor in the local cache, and the hub cannot be reached",
            hint="check the network and HF_HUB_OFFLINE, or give the folder of a copy",
        ) from error
    except EntryNotFoundError as error:
        raise CheckpointError(f"{repository} on the hub lacks a file: {error}") from error
    except RepositoryNotFoundError as error:
        # To someone without a token the hub does not admit that a gated repository exists.
        raise _gated(repository, "is gated, or no repository and no folder at all") from error
    except ValueError as error:
        # What no repository can be called.
        raise _no_folder(repository) from error
    except Exception as error:
        # What goes wrong on the way has no common class: client, transports, disk.
        raise CheckpointError(
            f"{repository} could not be fetched: {type(error).__name__}: {error}",
            hint="try again, or give a folder",
        ) from error
    return paths[0].parent


def _no_folder(name: str) -> CheckpointError:
    return CheckpointError(
        f"there is no checkpoint folder {name!r}",
        hint=f"give a folder, or a hub id such as {HUB_ID}",
    )


def _gated(repository: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"{repository} {why}; this machine may not fetch it",
        hint=(
            f"1. accept the licence on the model page of {repository};"
            " 2. make an access token with read permission;"
            " 3. hf auth login, or set HF_TOKEN to the token; 4. start again"
        ),
    )
