"""Registers the model with vLLM, in each of its processes."""

from __future__ import annotations

ARCHITECTURE = "HearingQwen3ForCausalLM"


def register() -> None:
    """Name the architecture; called more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model(ARCHITECTURE, f"{__name__}.model:HearingQwen3")
