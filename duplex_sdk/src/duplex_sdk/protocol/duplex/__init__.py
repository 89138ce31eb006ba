"""The one door to the wire: everything above the codec imports from here, and only from here."""

from __future__ import annotations

from duplex_sdk.protocol.realtime.base64_text import decode_base64, encode_base64
from duplex_sdk.protocol.realtime.capabilities import (
    ANY_RATE_PROTOCOL,
    OPENAI_PROTOCOL,
    RealtimeProtocolCapabilities,
)
from duplex_sdk.protocol.realtime.events import ErrorDetails
from duplex_sdk.protocol.realtime.fields import Fields
from duplex_sdk.protocol.realtime.formats import (
    FORMAT_SPELLINGS,
    G711_FORMATS,
    G711_RATE,
    INPUT_FORMATS,
    MAX_RATE,
    MIN_RATE,
    OUTPUT_FORMATS,
    AudioFormat,
    canonical_format,
    format_object,
    parse_audio_format,
    parse_rate,
)
from duplex_sdk.protocol.realtime.images import image_kind, read_image_url
from duplex_sdk.protocol.realtime.item_input import (
    AUDIO_PLACEHOLDER,
    IMAGE_PLACEHOLDER,
    ClientItem,
    ItemAudio,
    ItemImage,
    parse_item,
)
from duplex_sdk.protocol.realtime.items import (
    AudioTextMark,
    ContentPart,
    Item,
    ItemStatus,
    ResponseObject,
    ResponseStatus,
    StatusDetails,
)
from duplex_sdk.protocol.realtime.session import RealtimeInputDefaults
from duplex_sdk.protocol.realtime.transcript import RisingMarks, transcript_prefix

from . import commands as _commands
from . import events as _events
from .audio_input import decode_audio_append
from .commands import *  # noqa: F403
from .control_frames import EventAck, ResumeRequest
from .decode import COMMAND_ALIASES, MAX_CLIENT_FRAME_BYTES, ClientFrame, decode_command
from .encode import TURN_SIGNAL, channel, encode_command, mailbox_payload
from .errors import (
    ERROR_CODES,
    ErrorCode,
    ErrorType,
    RealtimeProtocolError,
    error_details,
    error_event,
    error_type,
    is_retryable,
)
from .event_decode import ServerFrame, decode_event, decode_server_frame
from .events import *  # noqa: F403

__all__ = [
    "ANY_RATE_PROTOCOL",
    "AUDIO_PLACEHOLDER",
    "COMMAND_ALIASES",
    "ERROR_CODES",
    "FORMAT_SPELLINGS",
    "G711_FORMATS",
    "G711_RATE",
    "IMAGE_PLACEHOLDER",
    "INPUT_FORMATS",
    "MAX_CLIENT_FRAME_BYTES",
    "MAX_RATE",
    "MIN_RATE",
    "OPENAI_PROTOCOL",
    "OUTPUT_FORMATS",
    "TURN_SIGNAL",
    "AudioFormat",
    "AudioTextMark",
    "ClientFrame",
    "ClientItem",
    "ContentPart",
    "ErrorCode",
    "ErrorDetails",
    "ErrorType",
    "EventAck",
    "Fields",
    "Item",
    "ItemAudio",
    "ItemImage",
    "ItemStatus",
    "RealtimeInputDefaults",
    "RealtimeProtocolCapabilities",
    "RealtimeProtocolError",
    "ResponseObject",
    "ResponseStatus",
    "ResumeRequest",
    "RisingMarks",
    "ServerFrame",
    "StatusDetails",
    "canonical_format",
    "channel",
    "decode_audio_append",
    "decode_base64",
    "decode_command",
    "decode_event",
    "decode_server_frame",
    "encode_base64",
    "encode_command",
    "error_details",
    "error_event",
    "error_type",
    "format_object",
    "image_kind",
    "is_retryable",
    "mailbox_payload",
    "parse_audio_format",
    "parse_item",
    "parse_rate",
    "read_image_url",
    "transcript_prefix",
]
__all__ += _commands.__all__
__all__ += _events.__all__
