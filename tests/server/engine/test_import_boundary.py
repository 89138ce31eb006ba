from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from duplex_server.engine.async_omni_engine import AsyncOmniEngine
from duplex_server.engine.duplex_omni_engine import DuplexOmniEngine
from duplex_server.engine.duplex_orchestrator import DuplexOrchestrator
from duplex_server.engine.omni_engine_base import OmniEngineBase
from duplex_server.engine.orchestrator import Orchestrator
from duplex_server.engine.orchestrator_base import OrchestratorBase
from duplex_server.entrypoints import AsyncOmni, AsyncOmniBase, DuplexOmni, Omni, OmniBase
from patience import PATIENCE_S

import duplex_server

SOURCE = Path(duplex_server.__file__).parent
TURN_BASED = [
    "engine/omni_engine_base.py",
    "engine/async_omni_engine.py",
    "engine/orchestrator.py",
    "engine/orchestrator_base.py",
    "engine/turn_requests.py",
    "engine/errors.py",
    "engine/streams.py",
    "engine/stage_flow.py",
    "engine/unheard.py",
    "engine/rpc.py",
    "engine/figures.py",
    "entrypoints/omni_base.py",
    "entrypoints/answer_sinks.py",
    "entrypoints/async_omni.py",
    "entrypoints/omni.py",
    "entrypoints/question.py",
]
LOADED = """
import sys
from duplex_server.entrypoints import AsyncOmni, Omni, Question
import duplex_server.engine.async_omni_engine
print("\\n".join(sys.modules))
"""
FOREIGN = re.compile(
    r"duplex_sdk\.(session|plugin|protocol|clients|discovery)\b"
    r"|duplex_server\.(runtime\.(session|control|output)|serving|cli)"
    r"|duplex_server\.\w+\.duplex_"
)
# The project's own name is no vocabulary; what is left must be free of it.
NAMES = re.compile(r"duplex_sdk|duplex_server|DuplexError|duplex-engine|duplex_plugin")


def test_turn_based_stack_loads_no_module_of_sessions() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LOADED],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert [name for name in result.stdout.split() if FOREIGN.match(name)] == []


@pytest.mark.parametrize("path", TURN_BASED)
def test_turn_based_classes_know_no_duplex_word(path: str) -> None:
    text = NAMES.sub("", (SOURCE / path).read_text())
    assert not re.search("duplex", text, re.IGNORECASE)


def test_sessions_extend_turns_and_turns_the_shared_base_in_every_layer() -> None:
    assert _line_of(DuplexOmni) == [DuplexOmni, AsyncOmni, AsyncOmniBase, OmniBase]
    assert _line_of(Omni) == [Omni, OmniBase]
    assert _line_of(DuplexOmniEngine) == [DuplexOmniEngine, AsyncOmniEngine, OmniEngineBase]
    assert _line_of(DuplexOrchestrator)[:3] == [DuplexOrchestrator, Orchestrator, OrchestratorBase]


def _line_of(kind: type) -> list[type]:
    """Its classes from this package, itself first."""
    ours = ("duplex_server.engine.", "duplex_server.entrypoints.")
    return [each for each in kind.__mro__ if each.__module__.startswith(ours)]
