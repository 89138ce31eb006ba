"""The stage contract: what runs a model is given, what it gives, and how stages form a pipeline.

The host that drives a ``StageModel`` is ``duplex_sdk.stage.host``; importing this package loads
neither it nor numpy.
"""

from __future__ import annotations

from .model import LoadContext, StageInfo, StageLoadError, StageModel
from .pipeline import PipelineConfig, StageInput
from .stage_chunks import chunks
from .stage_config import Backend, StageConfig
from .stage_input import StageInputContext, pass_on, sentences, whole
from .token_usage import TokenUsage, usage_of
from .types import (
    Array,
    Image,
    Json,
    OutputFields,
    StageError,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    ToolCall,
    UnitRequest,
)

__all__ = [
    "Array",
    "Backend",
    "Image",
    "Json",
    "LoadContext",
    "OutputFields",
    "PipelineConfig",
    "StageConfig",
    "StageError",
    "StageInfo",
    "StageInput",
    "StageInputContext",
    "StageLoadError",
    "StageModel",
    "StageOutput",
    "StagePrompt",
    "StageSession",
    "StageUnit",
    "TokenUsage",
    "ToolCall",
    "UnitRequest",
    "chunks",
    "pass_on",
    "sentences",
    "usage_of",
    "whole",
]
