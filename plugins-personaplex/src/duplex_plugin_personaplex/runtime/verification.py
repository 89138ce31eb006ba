"""``duplex verify-checkpoint personaplex DIR``: is this checkpoint whole and sound?

First the headers against the manifest, without any weight; then every tensor is read once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from duplex_sdk.discovery import Check, Report
from duplex_sdk.stage import StageLoadError

from duplex_plugin_personaplex.voices import BUNDLED_VOICES

from .headers import Header, read_header
from .loading import mimi_manifest
from .manifest import Mismatch, compare, lm_manifest
from .memory import gigabytes
from .pieces import TextTokens
from .sizes import RELEASE, lm_sizes, mimi_sizes, read_overrides
from .source import CheckpointFiles
from .voice_bank import VoiceBank
from .weights import damaged_tensors

__all__ = ["verify_checkpoint"]

_SHOWN = 20


def verify_checkpoint(folder: Path) -> Report:
    """Check a checkpoint in a folder. Never raises because of what it finds."""
    files = CheckpointFiles(folder)
    found = _check("files", lambda: _files(files))
    if not found.ok:
        return Report(str(folder), (found,))
    checks = [
        found,
        _check("language model: tensors", lambda: _lm_tensors(files)),
        _check("codec: tensors", lambda: _mimi_tensors(files)),
        _check("sizes", lambda: _sizes(files)),
        _check("tokenizer", lambda: _tokenizer(files)),
        _check("voices", lambda: _voices(files)),
    ]
    if all(check.ok for check in checks):
        checks.append(_check("language model: values", lambda: _values(files.lm)))
        checks.append(_check("codec: values", lambda: _values(files.mimi)))
    return Report(str(folder), tuple(checks))


class _FoundWrongError(Exception):
    """What a check found, in words."""


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except StageLoadError as error:
        return Check(name, False, str(error), error.hint)
    except _FoundWrongError as error:
        return Check(name, False, str(error))


def _files(files: CheckpointFiles) -> str:
    files.require()
    return "all there"


def _lm_tensors(files: CheckpointFiles) -> str:
    header = read_header(files.lm)
    sizes = lm_sizes(header, read_overrides(files.folder))
    return _compared(header, compare(header, lm_manifest(sizes)))


def _mimi_tensors(files: CheckpointFiles) -> str:
    header = read_header(files.mimi)
    sizes = mimi_sizes(header, read_overrides(files.folder))
    return _compared(header, compare(header, mimi_manifest(sizes)))


def _compared(header: Header, wrong: list[Mismatch]) -> str:
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise _FoundWrongError("; ".join(map(str, wrong[:_SHOWN])) + more)
    kinds = "/".join(sorted({entry.dtype for entry in header.tensors.values()}))
    return f"{len(header.tensors)} tensors, {kinds}, {gigabytes(header.byte_count)}"


def _sizes(files: CheckpointFiles) -> str:
    sizes = lm_sizes(read_header(files.lm), read_overrides(files.folder))
    if replace(sizes, depth_steps=RELEASE.depth_steps) == RELEASE:
        return "those of the release"
    return (
        f"not those of the release: {sizes.layers} layers of {sizes.dim},"
        f" {sizes.depth_layers} of {sizes.depth_dim}"
    )


def _tokenizer(files: CheckpointFiles) -> str:
    sizes = lm_sizes(read_header(files.lm), read_overrides(files.folder))
    tokens = TextTokens(files.text, sizes.text_card)
    return f"{sizes.text_card} pieces; {', '.join(tokens.names(range(4)))}"


def _voices(files: CheckpointFiles) -> str:
    sizes = lm_sizes(read_header(files.lm), read_overrides(files.folder))
    bank = VoiceBank(files.voices, None, sizes=sizes)
    missing = sorted(set(BUNDLED_VOICES) - set(bank.names))
    if missing:
        raise _FoundWrongError(f"missing: {', '.join(missing)}")
    return f"{len(bank.names)} voices"


def _values(path: Path) -> str:
    began = time.monotonic()
    header = read_header(path)
    wrong = [
        f"{name!r} {problem}" for name, problem in damaged_tensors(header, torch.device("cpu"))
    ]
    if wrong:
        raise _FoundWrongError("; ".join(wrong[:_SHOWN]))
    return f"{len(header.tensors)} tensors read in {time.monotonic() - began:.1f} s, all sound"
