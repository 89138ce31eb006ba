from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.plugin import load_duplex_plugin
from duplex_sdk.testing.scripted import plugin as scripted
from duplex_sdk.testing.session_lab import SessionLab

LabMaker = Callable[..., SessionLab]


@pytest.fixture
def make_lab() -> LabMaker:
    """A session of the scripted plugin: ``server`` keys make its default script."""

    def make(
        session: dict[str, Any] | None = None,
        *,
        script: dict[str, Any] | None = None,
        **rest: Any,
    ) -> SessionLab:
        plugin = load_duplex_plugin(scripted, {"script": script or {}})
        return SessionLab(plugin, session or {}, **rest)

    return make


@pytest.fixture
def vad_lab(make_lab: LabMaker) -> SessionLab:
    """Detector turns, each answered after 200 ms by two seconds of counter audio."""
    return make_lab({"turn_detection": {"type": "server_vad"}})


@pytest.fixture
def manual_lab(make_lab: LabMaker) -> SessionLab:
    """The client commits and asks."""
    return make_lab(script={"turns": "commit"})
