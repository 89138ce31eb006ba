"""The plugin contract: everything a model author touches besides ``duplex_sdk.stage``."""

from __future__ import annotations

from .api import API_VERSION, check_api
from .append_planner import AppendPlanner, AppendRequest, DuplexAppendPlan
from .buffer import AppendPiece, PcmAppendBuffer, PcmReservation, ReservationOrderError
from .capabilities import DuplexCapabilities
from .config import DuplexSessionConfig
from .config_errors import DuplexConfigError
from .data_plane import DuplexDataPlane, ModelResult
from .errors import DuplexRuntimeConfigError, PluginSpecError
from .fence import (
    DuplexFence,
    DuplexFenceMismatchError,
    belongs_to_session,
    request_epoch,
    request_session_id,
    request_turn_id,
    same_turn_requests,
    stage_request_id,
    stage_role,
)
from .input_processor import InputProcessor
from .loader import load_duplex_plugin, plugin_pipeline, resolve_options
from .model_plugin import DuplexModelPlugin
from .output_interpreter import DuplexOutputDecision, OutputInterpreter
from .response_options import ResponseCreateOptions
from .session_limits import DuplexSessionRuntimeConfig
from .session_policy import SessionPolicy
from .session_state import DuplexModelSessionState
from .spec import PluginOption, PluginSpec
from .stage_policy import StagePolicy
from .stage_port import (
    DuplexStagePort,
    DuplexStageRequestContext,
    DuplexStageSubmission,
    DuplexStageSubmissionResult,
)
from .turn_detection import TurnDetection
from .unit_buffer import UnitBuffer
from .views import OutputContext, SessionView

__all__ = [
    "API_VERSION",
    "AppendPiece",
    "AppendPlanner",
    "AppendRequest",
    "DuplexAppendPlan",
    "DuplexCapabilities",
    "DuplexConfigError",
    "DuplexDataPlane",
    "DuplexFence",
    "DuplexFenceMismatchError",
    "DuplexModelPlugin",
    "DuplexModelSessionState",
    "DuplexOutputDecision",
    "DuplexRuntimeConfigError",
    "DuplexSessionConfig",
    "DuplexSessionRuntimeConfig",
    "DuplexStagePort",
    "DuplexStageRequestContext",
    "DuplexStageSubmission",
    "DuplexStageSubmissionResult",
    "InputProcessor",
    "ModelResult",
    "OutputContext",
    "OutputInterpreter",
    "PcmAppendBuffer",
    "PcmReservation",
    "PluginOption",
    "PluginSpec",
    "PluginSpecError",
    "ReservationOrderError",
    "ResponseCreateOptions",
    "SessionPolicy",
    "SessionView",
    "StagePolicy",
    "TurnDetection",
    "UnitBuffer",
    "belongs_to_session",
    "check_api",
    "load_duplex_plugin",
    "plugin_pipeline",
    "request_epoch",
    "request_session_id",
    "request_turn_id",
    "resolve_options",
    "same_turn_requests",
    "stage_request_id",
    "stage_role",
]
