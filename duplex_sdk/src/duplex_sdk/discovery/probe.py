"""Looks at one descriptor in a fresh interpreter: ``python -m duplex_sdk.discovery.probe NAME``.

Prints one JSON object. Whatever the plugin prints is caught at the level of file descriptors, so
that nothing can get between, and told in the object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from duplex_sdk.errors import DuplexError, PluginIncompatibleError

from .registry import find_entry, read_descriptor

__all__ = ["main", "probe"]

# Whole runtimes: a descriptor that imports one makes every command slow, and fails where it is
# not installed.
_RUNTIMES = frozenset(
    {"jax", "moshi", "nemo", "onnxruntime", "ray", "tensorflow", "torch", "transformers", "vllm"}
)

_LONGEST = 200


def probe(name: str) -> dict[str, Any]:
    """What importing a plugin's descriptor shows: ``error`` or its ``spec``, and ``runtimes``."""
    import duplex_sdk.plugin  # noqa: F401 -- what it brings is not the plugin's doing

    before = set(sys.modules)
    answer: dict[str, Any] = {"error": None, "kind": None, "hint": None, "spec": None}
    try:
        spec = read_descriptor(find_entry(name), prints=sys.stdout)
    except DuplexError as error:
        kind = "api" if isinstance(error, PluginIncompatibleError) else "import"
        answer |= {"error": str(error), "kind": kind, "hint": error.hint}
    else:
        answer["spec"] = {
            "api": spec.api,
            "factory": spec.factory,
            "memory_bytes": spec.memory_bytes,
        }
    tops = {module.partition(".")[0] for module in set(sys.modules) - before}
    answer["runtimes"] = sorted(tops & _RUNTIMES)
    return answer


def main() -> int:
    """Probe the plugin that is named on the command line; ``printed`` is what it printed."""
    ours = os.dup(1)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 1)
        answer = probe(sys.argv[1])
        sys.stdout.flush()
        caught.seek(0)
        answer["printed"] = caught.read(_LONGEST).decode(errors="replace").strip()
    with os.fdopen(ours, "w", encoding="utf-8") as out:
        json.dump(answer, out)
    # A plugin's threads or exit handlers must not keep this process from ending.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
