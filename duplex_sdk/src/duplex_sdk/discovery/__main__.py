"""``python -m duplex_sdk.discovery --json``: what this interpreter's environment offers.

A server asks it of another interpreter, to serve plugins that need an environment of their own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
from typing import Any

from .entries import PLUGINS_GROUP, entries, trouble


def environment() -> dict[str, Any]:
    """The interpreter, its SDK, and its plugins with the folders of their packages."""
    from duplex_sdk.plugin import API_VERSION

    found, problems = entries(PLUGINS_GROUP)
    return {
        "api": API_VERSION,
        "sdk": importlib.metadata.version("duplex-sdk"),
        "python": platform.python_version(),
        "plugins": [
            {
                "name": entry.name,
                "distribution": entry.distribution,
                "version": entry.version,
                "value": entry.value,
                "package": entry.package,
                "folder": _folder(entry.package),
                "trouble": trouble(entry, found),
            }
            for entry in found
        ],
        "problems": [
            {"distribution": problem.distribution, "reason": problem.reason} for problem in problems
        ],
    }


def main(arguments: list[str]) -> int:
    """Print the environment as JSON."""
    if arguments != ["--json"]:
        print("usage: python -m duplex_sdk.discovery --json", file=sys.stderr)
        return 2
    json.dump(environment(), sys.stdout)
    print()
    return 0


def _folder(package: str) -> str | None:
    """Where a top-level package lies; found without running it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(spec.submodule_search_locations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
