"""The arguments of ``duplex serve``, and what follows from them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from duplex_sdk.errors import DuplexError
from duplex_sdk.plugin import PluginOption

from duplex_server.settings import (
    ResolvedSettings,
    SettingKey,
    SettingsError,
    plugin_of,
    resolve_settings,
    setting_keys,
)
from duplex_server.settings.report import setting_lines
from duplex_server.settings.stage_report import stage_lines

__all__ = ["run_serve"]


def run_serve(
    arguments: Sequence[str], *, serve: Callable[[ResolvedSettings], int] | None = None
) -> int:
    """Parse the arguments and serve until a signal comes.

    Args:
        arguments: of ``duplex serve``.
        serve: what serves; None: what ``duplex serve`` does.

    Returns:
        The exit code.

    Raises:
        DuplexError: the server cannot start; the message is one sentence.
    """
    app = typer.Typer(add_completion=False)
    keys = setting_keys(_options_of_named_plugin(arguments))
    app.command("serve")(_command(keys, serve))
    result = app(list(arguments), prog_name="duplex serve", standalone_mode=False)
    return int(result or 0)


def _command(keys: Sequence[SettingKey], instead: Callable[[ResolvedSettings], int] | None) -> Any:
    def serve(**values: Any) -> int:
        """Serve a plugin to realtime clients."""
        config, print_config = values.pop("config"), values.pop("print_config")
        resolved = resolve_settings(
            values,
            os.environ,
            config=config,
            given_options=_key_values(values.pop("plugin_option") or ()),
            given_stages=_stage_values(values.pop("stage") or ()),
        )
        if print_config:
            _print_settings(resolved)
            return 0
        if instead is not None:
            return instead(resolved)
        from .server import serve_until_signal

        return serve_until_signal(resolved)

    parameters = [*_own_parameters(), *(_parameter(key) for key in keys)]
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return serve


def _parameter(key: SettingKey) -> inspect.Parameter:
    option = typer.Option(
        key.flag,
        help=key.help,
        rich_help_panel=key.panel,
        metavar="|".join(key.choices) or _placeholder(key.option),
    )
    kind = list[str] if key.repeated else str
    return _keyword(key.option, Annotated[kind | None, option])


def _placeholder(option: str) -> str:
    """What stands for the value in ``--help``: its unit where the name ends in one."""
    last = option.rpartition("_")[2]
    if "bytes" in option:
        return "BYTES"
    return {"s": "SECONDS", "ms": "MS", "session": "N", "sessions": "N", "frames": "N"}.get(
        last, last.upper()
    )


def _own_parameters() -> list[inspect.Parameter]:
    config = typer.Option("--config", help="settings file; ./duplex.yaml is read when it is there")
    show = typer.Option("--print-config", help="show every setting and its origin; serve nothing")
    extra = typer.Option(
        "--plugin-option",
        metavar="KEY=VALUE",
        help="an option of the plugin; @FILE instead of a value reads it from there",
    )
    stage = typer.Option(
        "--stage",
        metavar="ID.KEY=VALUE",
        help="a setting of one stage, such as talker.backend=process or talker.replicas=2",
    )
    return [
        _keyword("config", Annotated[Path | None, config]),
        _keyword("print_config", Annotated[bool, show], default=False),
        _keyword("plugin_option", Annotated[list[str] | None, extra]),
        _keyword("stage", Annotated[list[str] | None, stage]),
    ]


def _keyword(name: str, annotation: Any, *, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _options_of_named_plugin(arguments: Sequence[str]) -> tuple[PluginOption, ...]:
    """The options of the plugin these arguments are about; none if that cannot be told yet."""
    try:
        return plugin_of(
            _argument(arguments, "--plugin"),
            os.environ,
            config=_argument(arguments, "--config"),
            worker_python=_argument(arguments, "--worker-python"),
        ).options
    except DuplexError:
        # Serving reports it; ``--help`` must work without any plugin.
        return ()


def _argument(arguments: Sequence[str], flag: str) -> str | None:
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
    return None


def _key_values(pairs: Sequence[str]) -> Mapping[str, str]:
    values = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise SettingsError(f"--plugin-option takes KEY=VALUE, not '{pair}'")
        values[key.replace("-", "_")] = _content(value) if value.startswith("@") else value
    return values


def _stage_values(pairs: Sequence[str]) -> Mapping[tuple[str, ...], Any]:
    values = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        path = tuple(key.split("."))
        if not separator or len(path) < 2 or not all(path):
            raise SettingsError(f"--stage takes ID.KEY=VALUE, not '{pair}'")
        try:
            values[path] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise SettingsError(f"--stage {key}: {value!r} is no value") from error
    return values


def _content(reference: str) -> str:
    try:
        return Path(reference[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"--plugin-option: cannot read {reference[1:]}: {error}") from error


def _print_settings(resolved: ResolvedSettings) -> None:
    lines = (*setting_lines(resolved), *stage_lines(resolved))
    paths = max(len(line.path) for line in lines)
    values = max(len(line.value) for line in lines)
    for line in lines:
        typer.echo(f"{line.path:<{paths}}  {line.value:<{values}}  {line.origin}")
