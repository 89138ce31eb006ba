"""Functions a model may call, between the words of the chat API and those of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .refusal import ChatRefusedError

if TYPE_CHECKING:
    from duplex_sdk.stage import ToolCall

__all__ = ["call_fields", "call_of_item", "calls_said", "result_said", "tool_settings"]


def tool_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``tools`` and ``tool_choice`` of a request as a session object has them; absent: none.

    Raises:
        ChatRefusedError: one of them has another shape.
    """
    tools, choice = fields.get("tools"), fields.get("tool_choice")
    if not tools:
        return {}
    if not isinstance(tools, list):
        raise ChatRefusedError("invalid_tools", "tools must be a list", param="tools")
    said: dict[str, Any] = {"tools": [_flat(tool, "tools") for tool in tools]}
    if choice is not None:
        said["tool_choice"] = choice if isinstance(choice, str) else _flat(choice, "tool_choice")
    return said


def _flat(tool: Any, param: str) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or tool.get("type") != "function":
        raise ChatRefusedError("invalid_tools", f"{param} may name functions only", param=param)
    return {"type": "function", **function}


def calls_said(message: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    """Items for the calls that an assistant's message of the past holds.

    Raises:
        ChatRefusedError: one of them has another shape.
    """
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        where = f"{path}.tool_calls"
        raise ChatRefusedError("invalid_tools", f"{where} must be a list", param=where)
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            where = f"{path}.tool_calls[{index}]"
            raise ChatRefusedError("invalid_tools", f"{where} calls no function", param=where)
        yield {
            "type": "function_call",
            "call_id": str(call.get("id", "")),
            "name": str(function.get("name", "")),
            "arguments": str(function.get("arguments", "")),
        }


def result_said(message: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The item for a message with what a function gave.

    Raises:
        ChatRefusedError: it does not say which call it answers, or is no text.
    """
    call_id, content = message.get("tool_call_id"), message.get("content")
    if not isinstance(call_id, str) or not isinstance(content, str):
        raise ChatRefusedError(
            "bad_event", f"{path} needs a tool_call_id and text as its content", param=path
        )
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def call_of_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """A call of the past as chat models read it."""
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def call_fields(call: ToolCall) -> dict[str, Any]:
    """A call that the model makes now, as a client reads it."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}
