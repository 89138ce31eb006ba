"""A stage that is a language model served by vLLM: sessions, their contexts, their requests.

Importing this package loads no model library; ``async_llm`` alone does, inside a worker.
"""

from __future__ import annotations

from .context import Embeddings, Piece, TokenContext
from .engine import Delta, EngineLostError, EngineRequest, LanguageEngine, Segment
from .host import VllmHost
from .settings import BackendSettings

__all__ = [
    "BackendSettings",
    "Delta",
    "Embeddings",
    "EngineLostError",
    "EngineRequest",
    "LanguageEngine",
    "Piece",
    "Segment",
    "TokenContext",
    "VllmHost",
]
