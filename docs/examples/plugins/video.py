"""Video: the model is shown the camera's frames with the sound, and says how many it saw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)

plugin = PluginSpec(name="onlooker", api="1.0", factory="video:Onlooker", max_sessions=8)


class Onlooker(DuplexModelPlugin):
    """Hears and sees a second at a time, and decides by itself when to speak."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.native(
            supports_multi_session=True,
            supports_client_commit=False,
            supports_external_turn_signal=False,
            optional_input_modalities=("video",),
            chunk_period_ms=1000,
        )

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig((StageConfig("eye", "video:Eye"),))


@dataclass
class Sight:
    """What one session was shown and not told about yet."""

    frames: int = 0
    size: int = 0


class Eye(StageModel[Sight]):
    """A frame is what the camera made of it, a JPEG or a PNG: decode it in here."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> Sight:
        return Sight()

    def step_unit(self, unit: StageUnit[Sight], now: float) -> Iterable[StageOutput]:
        sight = unit.state
        for image in unit.prompt.images:
            sight.frames += 1
            sight.size += len(image.data)
        if unit.prompt.images or not sight.frames:
            yield unit.output(listen=True)
            return
        text = f"I saw {sight.frames} pictures, {sight.size} bytes in all."
        sight.frames = sight.size = 0
        yield unit.output(text=text, end_of_turn=True)

    def cancel(self, state: Sight, epoch: int, heard_ms: float) -> None:
        state.frames = state.size = 0
