"""From ``"package.module:Class"`` to the ``StageModel`` it names."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from .model import StageLoadError, StageModel

__all__ = ["load_model_class", "make_model"]


# Stages load at once, each in its thread. Two threads that enter a library's circle of imports at
# different points may see modules that are half made.
_importing = threading.Lock()


def load_model_class(path: str) -> type[StageModel[Any]]:
    """Import a stage's model class: the heavy half of a plugin, to be done where the model runs.

    Raises:
        StageLoadError: the path is malformed, its module does not import, or what it names is no
            ``StageModel``; the cause is chained.
    """
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise StageLoadError(
            f"{path!r} does not name a stage model", "write it as 'package.module:Class'"
        )
    try:
        with _importing:
            module = importlib.import_module(module_name)
        found = getattr(module, class_name)
    except ImportError as error:
        raise StageLoadError(
            f"stage model {path!r} does not import: {error}",
            "is the plugin installed with everything it needs? `duplex plugins doctor` tells",
        ) from error
    except AttributeError as error:
        raise StageLoadError(f"module {module_name} has no {class_name}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may exit, or panic
        raise StageLoadError(f"stage model {path!r} fails when imported: {error!r}") from error
    if not isinstance(found, type) or not issubclass(found, StageModel):
        raise StageLoadError(f"{path!r} is no StageModel", "subclass duplex_sdk.stage.StageModel")
    return found


def make_model(path: str) -> StageModel[Any]:
    """A stage's model, not loaded yet.

    Raises:
        StageLoadError: its class cannot be imported, or it cannot be made.
    """
    kind = load_model_class(path)
    try:
        return kind()
    except (StageLoadError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it may exit, or panic
        raise StageLoadError(f"{kind.__name__} cannot be made: {error!r}") from error
