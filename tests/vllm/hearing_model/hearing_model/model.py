"""Qwen3 that takes ready embeddings as the modality ``audio``, as a model with an ear would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from vllm.model_executor.models.interfaces import SupportsMultiModal
from vllm.model_executor.models.utils import init_vllm_registered_model
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
)

LONGEST_UNIT = 32
"""Embeddings that one unit may bring."""


class _Info(BaseProcessingInfo):
    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"audio": None}

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Any) -> Mapping[str, int]:
        return {"audio": LONGEST_UNIT}


class _Dummies(BaseDummyInputsBuilder[_Info]):
    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return ""

    def get_dummy_mm_data(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}


class _Processor(BaseMultiModalProcessor[_Info]):
    """Never run: every input comes ready."""

    def _get_mm_fields_config(self, *args: Any, **kwargs: Any) -> Any:
        return {"audio_embeds": MultiModalFieldConfig.batched("audio")}

    def _get_prompt_updates(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        return ()


@MULTIMODAL_REGISTRY.register_processor(_Processor, info=_Info, dummy_inputs=_Dummies)
class HearingQwen3(nn.Module, SupportsMultiModal):
    """The language model as it is; embeddings of sound take the place of tokens."""

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__()
        self.config = vllm_config.model_config.hf_config
        with self._mark_language_model(vllm_config):
            self.language_model = init_vllm_registered_model(
                vllm_config=vllm_config,
                hf_config=self.config,
                prefix="language_model",
                architectures=["Qwen3ForCausalLM"],
            )
        self.make_empty_intermediate_tensors = self.language_model.make_empty_intermediate_tensors

    def embed_multimodal(self, **kwargs: Any) -> Any:
        """The embeddings themselves, one tensor for each unit."""
        return tuple(kwargs.get("audio_embeds", ()))

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """As the language model does it."""
        return self.language_model.model(
            input_ids, positions, intermediate_tensors, inputs_embeds=inputs_embeds
        )

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        """Of the language model."""
        return self.language_model.compute_logits(hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """The checkpoint is a plain Qwen3."""
        loaded = self.language_model.load_weights(weights)
        return {f"language_model.{name}" for name in loaded}
