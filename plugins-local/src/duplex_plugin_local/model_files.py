"""The model files inside the packages we depend on: where they are, and that they are right.

Later releases of the recogniser's package no longer hold the weights, and a damaged file would
only show as nonsense: both are found here, before anything is loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from duplex_sdk.stage import StageLoadError

__all__ = [
    "MOONSHINE_FILES",
    "VOICE_FILES",
    "ModelFile",
    "checked",
    "package_folder",
]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that a package must hold, and what it hashes to."""

    path: str
    sha256: str


MOONSHINE = ("moonshine_voice", "moonshine-voice==0.0.73")
MOONSHINE_FILES = {
    "encoder": ModelFile(
        "assets/tiny-en/encoder_model.ort",
        "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
    ),
    "decoder": ModelFile(
        "assets/tiny-en/decoder_model_merged.ort",
        "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
    ),
    "tokenizer": ModelFile(
        "assets/tiny-en/tokenizer.bin",
        "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
    ),
}
HIBARI = ("hibari", "hibari-tts==0.2.1")
VOICE_FILES = {
    "voice": ModelFile(
        "assets/hibari.onnx", "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"
    )
}


def package_folder(package: str, requirement: str) -> Path:
    """The folder of an installed package, without importing it.

    The recogniser's package cannot be imported on a machine without an audio system.

    Raises:
        StageLoadError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StageLoadError(
            f"the package {package} is not installed", hint=f"pip install '{requirement}'"
        )
    return Path(spec.submodule_search_locations[0])


def checked(folder: Path, files: dict[str, ModelFile], requirement: str) -> dict[str, Path]:
    """The paths of ``files`` in ``folder``, each hashed.

    Raises:
        StageLoadError: one is missing or is not what it should be.
    """
    hint = f"pip install --force-reinstall --no-deps '{requirement}'"
    paths = {}
    for role, file in files.items():
        path = folder / file.path
        if not path.is_file():
            raise StageLoadError(f"the {role} file {path} is missing", hint=hint)
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != file.sha256:
            raise StageLoadError(
                f"the {role} file {path} is not the expected one: sha256 {found[:12]}... "
                f"instead of {file.sha256[:12]}...",
                hint=hint,
            )
        paths[role] = path
    return paths
