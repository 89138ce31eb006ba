"""Looks at a descriptor in a fresh interpreter: ``-m duplex_sdk.discovery.probe NAME LIMIT``.

Prints one JSON object. Whatever the plugin prints is caught at the level of file descriptors, so
that nothing can get between, and told in the object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
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


def probe(name: str, started: threading.Event) -> dict[str, Any]:
    """What importing a plugin's descriptor shows: ``error`` or its ``spec``, and ``runtimes``.

    Args:
        name: the plugin.
        started: set when the import begins: what comes before it takes none of its time.
    """
    import duplex_sdk.plugin  # noqa: F401 -- what it brings is not the plugin's doing

    before = set(sys.modules)
    answer: dict[str, Any] = {"error": None, "kind": None, "hint": None, "spec": None}
    try:
        entry = find_entry(name)
        started.set()
        spec = read_descriptor(entry, prints=sys.stdout)
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
    """Probe the plugin that is named on the command line; ``printed`` is what it printed.

    It gives up on a descriptor that takes longer than the limit, in seconds.
    """
    name, limit_s = sys.argv[1], float(sys.argv[2])
    ours = os.dup(1)
    started = threading.Event()
    threading.Thread(target=_give_up, args=(started, limit_s, ours), daemon=True).start()
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 1)
        answer = probe(name, started)
        sys.stdout.flush()
        caught.seek(0)
        answer["printed"] = caught.read(_LONGEST).decode(errors="replace").strip()
    _leave(answer, ours)
    return 0


def _give_up(started: threading.Event, limit_s: float, ours: int) -> None:
    started.wait()
    time.sleep(limit_s)
    problem = f"its descriptor takes more than {limit_s:g} s to import"
    _leave({"error": problem, "kind": "import", "hint": None}, ours)


_leaving = threading.Lock()


def _leave(answer: dict[str, Any], ours: int) -> None:
    """Tell the answer and end this process, whatever of the plugin's still runs in it."""
    with _leaving, os.fdopen(ours, "w", encoding="utf-8") as out:
        json.dump(answer, out)
        out.flush()
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
