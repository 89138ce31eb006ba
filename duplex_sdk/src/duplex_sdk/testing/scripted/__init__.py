"""``scripted``: a deterministic plugin whose every sample is known beforehand."""

from __future__ import annotations

from duplex_sdk.plugin import PluginOption, PluginSpec

__all__ = ["plugin"]

plugin = PluginSpec(
    name="scripted",
    api="1.0",
    factory="duplex_sdk.testing.scripted.model:Scripted",
    summary="says what a script tells it; for tests, benchmarks and people without a model",
    licence="Apache-2.0",
    options=(PluginOption("script", help="the default script, JSON; @FILE reads it from a file"),),
    max_sessions=4096,
)
