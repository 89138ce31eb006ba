"""What a stage output means."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from .data_plane import DuplexDataPlane

if TYPE_CHECKING:
    from duplex_sdk.stage import Json, StageOutput

    from .views import OutputContext

__all__ = ["DuplexOutputDecision", "OutputInterpreter"]


class DuplexOutputDecision(msgspec.Struct, frozen=True):
    """The pipeline ends here for this output: it goes to the client and no further.

    Attributes:
        action: ``direct_response``, the only one so far.
        metadata: for the log.
        final_output_type: ``text`` or ``audio``.
    """

    action: Literal["direct_response"] = "direct_response"
    metadata: Mapping[str, Json] = {}
    final_output_type: str = "text"


class OutputInterpreter(ABC):  # noqa: B024 -- a role of which every part has a default
    """Output side of a plugin. Everything has a default; an exception counts as the default.

    Attributes:
        data_plane: what turns outputs into model results.
    """

    data_plane: DuplexDataPlane = DuplexDataPlane()

    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        """Whether an output of a stage before the last is an answer already; None: forward it.

        Must be pure.
        """
        return None

    def project_intermediate_output(self, output: StageOutput, context: OutputContext) -> bool:
        """Whether the client sees an output that is forwarded as well."""
        return False
