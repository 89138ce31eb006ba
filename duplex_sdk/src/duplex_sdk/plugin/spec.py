"""The descriptor: what an entry point of ``duplex.plugins`` holds. Small, frozen, cheap."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .api import parse_api
from .capabilities import SUPPORT_NAMES
from .errors import PluginSpecError

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

    from .model_plugin import DuplexModelPlugin

__all__ = ["PluginOption", "PluginSpec"]

_NAME = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_OPTION = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_OPTION_TYPES = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One option of a plugin; it becomes the flag ``--name-with-dashes``.

    Attributes:
        name: lower case letters, digits and underscores.
        type: ``str``, ``int``, ``float`` or ``bool``.
        default: the value when nobody says anything; None: no value.
        help: one sentence for ``--help``.
        choices: the only values allowed; empty: any.
    """

    name: str
    type: type = str
    default: Json = None
    help: str = ""
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _OPTION.fullmatch(self.name):
            raise PluginSpecError(
                f"option {self.name!r}: use lower case letters, digits and underscores,"
                " a letter first"
            )
        if self.type not in _OPTION_TYPES:
            raise PluginSpecError(f"option {self.name!r}: its type must be str, int, float or bool")
        if self.choices and self.default is not None and self.default not in self.choices:
            raise PluginSpecError(
                f"option {self.name!r}: the default {self.default!r} is none of its choices"
            )

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """Everything that can be known of a plugin without importing its code.

    Attributes:
        name: the entry point's name.
        api: the plugin API it was written for, a literal ``"major.minor"``.
        factory: ``"package.module:Class"`` of its ``DuplexModelPlugin``.
        summary: one line for lists.
        licence: of the model.
        input_sample_rate: Hz that the model hears.
        output_sample_rate: Hz that the model speaks.
        capabilities: empty, or exactly the true ``supports_*`` without that prefix.
        voices: names a client may ask for.
        options: what the command line and the settings file may set.
        memory_bytes: need of the whole model.
        max_sessions: sessions at once with default options.

    Raises:
        PluginSpecError: a field that cannot be, named in the message.
    """

    name: str
    api: str
    factory: str
    summary: str = ""
    licence: str = ""
    input_sample_rate: int = 16_000
    output_sample_rate: int = 24_000
    capabilities: frozenset[str] = frozenset()
    voices: tuple[str, ...] = ()
    options: tuple[PluginOption, ...] = ()
    memory_bytes: int = 0
    max_sessions: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise PluginSpecError(
                f"plugin name {self.name!r}: use lower case letters, digits and hyphens,"
                " a letter first"
            )
        if not isinstance(self.factory, str) or not _FACTORY.fullmatch(self.factory):
            raise PluginSpecError(
                f"plugin '{self.name}': factory must be 'package.module:Class',"
                f" got {self.factory!r}"
            )
        self._check_api()
        self._check_figures()
        self._check_names()

    def _check_api(self) -> None:
        try:
            parse_api(self.api)
        except (TypeError, ValueError) as error:
            raise PluginSpecError(f"plugin '{self.name}': {error}") from error

    def _check_figures(self) -> None:
        for field in ("input_sample_rate", "output_sample_rate", "max_sessions"):
            if getattr(self, field) <= 0:
                raise PluginSpecError(f"plugin '{self.name}': {field} must be above zero")
        if self.memory_bytes < 0:
            raise PluginSpecError(f"plugin '{self.name}': memory_bytes must not be negative")

    def _check_names(self) -> None:
        unknown = sorted(self.capabilities - SUPPORT_NAMES)
        if unknown:
            raise PluginSpecError(
                f"plugin '{self.name}': no such capability: {', '.join(unknown)}",
                hint="the names are the supports_* fields of DuplexCapabilities, less that prefix",
            )
        names = [option.name for option in self.options]
        if len(set(names)) != len(names):
            raise PluginSpecError(f"plugin '{self.name}': an option is declared twice")

    def load(self) -> type[DuplexModelPlugin]:
        """Import the plugin's light half and return its class.

        Raises:
            ValueError: the module has no such attribute.
            TypeError: it is no class derived from ``DuplexModelPlugin``.
            Exception: whatever the import raises.
        """
        from .model_plugin import DuplexModelPlugin

        module_name, _, class_name = self.factory.partition(":")
        module = importlib.import_module(module_name)
        found = getattr(module, class_name, None)
        if found is None:
            raise ValueError(f"module {module_name} has no {class_name!r}")
        if not (isinstance(found, type) and issubclass(found, DuplexModelPlugin)):
            raise TypeError(f"{self.factory} is no subclass of DuplexModelPlugin")
        return found
