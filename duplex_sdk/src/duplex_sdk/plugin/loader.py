"""From a descriptor to the plugin object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.stage import PipelineConfig

from .api import check_api
from .capabilities import DuplexCapabilities
from .config import DuplexSessionConfig
from .data_plane import DuplexDataPlane
from .errors import PluginSpecError
from .model_plugin import DuplexModelPlugin
from .spec import PluginOption, PluginSpec
from .turn_detection import TurnDetection

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

__all__ = ["load_duplex_plugin", "plugin_pipeline", "resolve_options"]


def load_duplex_plugin(
    spec: PluginSpec, options: Mapping[str, Json] | None = None
) -> DuplexModelPlugin:
    """Make the plugin object of a descriptor. Imports the light half, no model.

    Args:
        spec: the descriptor.
        options: values for the options it declares; the others get their defaults.

    Raises:
        PluginIncompatibleError: written for another plugin API.
        PluginSpecError: an option that it does not have, or a value that it refuses.
        ValueError: the factory's path leads nowhere, or a session default cannot be.
        TypeError: the factory is no plugin, or its pipeline, capabilities or data plane is none.
        Exception: whatever the plugin's code raises.
    """
    check_api(spec.name, spec.api)
    resolved = MappingProxyType(resolve_options(spec, options or {}))
    plugin = _made(spec, resolved)
    plugin.plugin_id = spec.name
    if not hasattr(plugin, "options"):
        # A constructor of its own need not call ours.
        plugin.options = resolved
    known = plugin.capabilities(max_sessions=spec.max_sessions)
    _require(spec, "capabilities()", known, DuplexCapabilities)
    _require(spec, "data_plane", plugin.data_plane, DuplexDataPlane)
    _check_session_defaults(spec, known)
    plugin_pipeline(spec, plugin)
    if plugin.early_input and not known.supports_core_resumable_request:
        raise ValueError(f"plugin '{spec.name}': early_input needs supports_core_resumable_request")
    return plugin


def _made(spec: PluginSpec, options: Mapping[str, Json]) -> DuplexModelPlugin:
    factory = spec.load()
    try:
        return factory(options)
    except ValueError as error:
        # Whoever typed the option is to mend it: the plugin itself is sound.
        raise PluginSpecError(
            f"plugin '{spec.name}': {error}",
            hint=getattr(error, "hint", None)
            or f"duplex plugins inspect {spec.name} lists its options",
        ) from error


def plugin_pipeline(spec: PluginSpec, plugin: DuplexModelPlugin) -> PipelineConfig:
    """The plugin's stages, with the plugin itself noted as their duplex model.

    Raises:
        TypeError: it returns something else.
    """
    pipeline = plugin.pipeline()
    _require(spec, "pipeline()", pipeline, PipelineConfig)
    return replace(pipeline, duplex_plugin=pipeline.duplex_plugin or spec.factory)


def resolve_options(spec: PluginSpec, given: Mapping[str, Json]) -> dict[str, Json]:
    """All options of a plugin: what was given, else the default.

    Text is read as the option's type, so that flags, environment and files may all hand over
    text.

    Raises:
        PluginSpecError: an option the plugin does not have, or a value it cannot take.
    """
    unknown = sorted(set(given) - {option.name for option in spec.options})
    if unknown:
        known = ", ".join(option.name for option in spec.options) or "none"
        raise PluginSpecError(
            f"plugin '{spec.name}' has no option {unknown[0]!r}", hint=f"its options: {known}"
        )
    return {
        option.name: _value(spec, option, given[option.name])
        if given.get(option.name) is not None
        else option.default
        for option in spec.options
    }


def _value(spec: PluginSpec, option: PluginOption, value: Json) -> Json:
    try:
        typed = _read(option.type, value) if isinstance(value, str) else value
    except ValueError as error:
        raise _bad_value(spec, option, value) from error
    # An int is a good float; a bool is no number although Python says so.
    fits = isinstance(typed, (int, float) if option.type is float else option.type)
    if not fits or (isinstance(typed, bool) and option.type is not bool):
        # Structured values of a text option (a script, say) come from the settings file as they
        # are; only scalars can be wrong.
        if option.type is str and isinstance(typed, (dict, list)):
            return typed
        raise _bad_value(spec, option, value)
    if option.choices and typed not in option.choices:
        raise _bad_value(spec, option, value)
    return float(typed) if option.type is float else typed


def _read(wanted: type, text: str) -> Json:
    if wanted is not bool:
        return wanted(text)
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _bad_value(spec: PluginSpec, option: PluginOption, value: Json) -> PluginSpecError:
    wanted = f"one of {', '.join(option.choices)}" if option.choices else option.type.__name__
    return PluginSpecError(
        f"plugin '{spec.name}', option {option.name!r}: {value!r} is not {wanted}",
        hint=option.help or None,
    )


def _check_session_defaults(spec: PluginSpec, known: DuplexCapabilities) -> None:
    """What the model prefers must be a configuration that a session can have.

    Raises:
        ValueError: a field there is not, or a value it cannot take.
    """
    preferred = dict(known.session_defaults)
    figures = preferred.pop("turn_detection", None) or {}
    _check_fields(f"plugin '{spec.name}': session_defaults", preferred, DuplexSessionConfig)
    _require(spec, "session_defaults['turn_detection']", figures, Mapping)
    _check_fields(
        f"plugin '{spec.name}': session_defaults['turn_detection']", dict(figures), TurnDetection
    )


def _check_fields(what: str, values: Mapping[str, Json], owner: type[msgspec.Struct]) -> None:
    kinds = {field.name: field.type for field in msgspec.structs.fields(owner)}
    for name, value in values.items():
        if name not in kinds:
            raise ValueError(f"{what}: {owner.__name__} has no field {name!r}")
        try:
            msgspec.convert(value, kinds[name])
        except msgspec.ValidationError as error:
            raise ValueError(f"{what}[{name!r}]: {error}") from error


def _require(spec: PluginSpec, what: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise TypeError(
            f"plugin '{spec.name}': {what} must be a {wanted.__name__}, got {type(value).__name__}"
        )
