"""The version of the plugin contract, apart from every package version.

What is added to the contract makes a new minor, what is taken away a new major. A host takes a
plugin of its own major whose minor is not newer than its own.
"""

from __future__ import annotations

import re

from duplex_sdk.errors import PluginIncompatibleError
from duplex_sdk.stage.api_version import API_VERSION

__all__ = ["API_VERSION", "check_api", "parse_api"]

_FORM = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)


def parse_api(version: str) -> tuple[int, int]:
    """Read ``major.minor``.

    Raises:
        ValueError: it has another form.
    """
    match = _FORM.fullmatch(version)
    if match is None:
        raise ValueError(f"an API version is written major.minor, like '1.0'; got {version!r}")
    return int(match[1]), int(match[2])


def check_api(name: str, wanted: str, *, distribution: str | None = None) -> None:
    """Make sure that a plugin fits this SDK.

    Args:
        name: the plugin's name, for the message.
        wanted: the API version in its descriptor.
        distribution: what to upgrade when the plugin is the older side.

    Raises:
        PluginIncompatibleError: another major, or a newer minor than ours.
    """
    major, minor = parse_api(wanted)
    our_major, our_minor = parse_api(API_VERSION)
    if major == our_major and minor <= our_minor:
        return
    stale = "duplex-sdk" if (major, minor) > (our_major, our_minor) else distribution
    raise PluginIncompatibleError(
        f"plugin '{name}' wants plugin API {wanted}; this SDK speaks {API_VERSION}",
        hint=f"pip install -U {stale or 'duplex-plugin-' + name}",
    )
