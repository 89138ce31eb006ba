"""Every setting a person can give on one line: its path, its flag, its variable."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from duplex_sdk.plugin import DuplexSessionRuntimeConfig, PluginOption

from .model import ServerSettings, ServingSettings

__all__ = ["SettingKey", "setting_keys"]

_TOP_LEVEL = (
    *("plugin", "session_mode", "chat_backend", "device"),
    *("worker_python", "worker_secret", "log_level"),
)
_SINGULAR = {"api_keys": "api_key", "allowed_origins": "allowed_origin"}


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One leaf of the settings.

    Attributes:
        path: keys from the top of the settings file.
        option: name on the command line, with underscores.
        repeated: a list; the flag is given once for each entry.
        choices: the only values allowed; empty: any.
        help: one sentence for ``--help``.
        panel: heading it stands under in ``--help``.
    """

    path: tuple[str, ...]
    option: str
    repeated: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    panel: str = "Server"

    @property
    def flag(self) -> str:
        """On the command line."""
        return "--" + self.option.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables that give it; of a list, one holds all, comma-separated."""
        names = dict.fromkeys((self.path[-1], self.option))
        return tuple(f"DUPLEX_{name.upper()}" for name in names)


def setting_keys(options: Sequence[PluginOption] = ()) -> tuple[SettingKey, ...]:
    """All keys, with those of a plugin's own options.

    An option named as a setting of the server gets no flag and no variable of its own;
    ``--plugin-option`` gives it.
    """
    own = (*_top_level(), *_serving(), *_duplex_session(), *_RESERVED)
    taken = {key.option for key in own}
    free = [option for option in options if option.name not in taken]
    return (*own[: -len(_RESERVED)], *_plugin(free))


_OTHER_FLAGS = ("config", "print_config", "plugin_option", "stage")
_RESERVED = tuple(SettingKey((name,), name) for name in _OTHER_FLAGS)


def _top_level() -> tuple[SettingKey, ...]:
    fields = ServerSettings.model_fields
    return tuple(
        SettingKey(
            (name,),
            name,
            choices=_choices(fields[name].annotation),
            help=fields[name].description or "",
        )
        for name in _TOP_LEVEL
    )


def _serving() -> tuple[SettingKey, ...]:
    return tuple(
        SettingKey(
            ("serving", name),
            _SINGULAR.get(name, name),
            repeated=name in _SINGULAR,
            help=field.description or "",
        )
        for name, field in ServingSettings.model_fields.items()
    )


def _duplex_session() -> tuple[SettingKey, ...]:
    hints = get_type_hints(DuplexSessionRuntimeConfig)
    return tuple(
        SettingKey(
            ("duplex_session", field.name),
            field.name,
            choices=_choices(hints[field.name]),
            help="" if field.default is None else f"default {field.default}",
            panel="Sessions",
        )
        for field in msgspec.structs.fields(DuplexSessionRuntimeConfig)
    )


def _plugin(options: Sequence[PluginOption]) -> tuple[SettingKey, ...]:
    return tuple(
        SettingKey(
            ("plugin_options", option.name),
            option.name,
            choices=option.choices,
            help=option.help,
            panel="Plugin",
        )
        for option in options
    )


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(choice for part in get_args(annotation) for choice in _choices(part))
    return ()
