"""What a model says of itself is checked while it loads, and not when it is first gone by."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.stage import LoadContext, StageInfo, StageLoadError
from duplex_sdk.stage.host import StageHost


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (None, "no StageInfo but None"),
        ({"device": "cpu"}, "no StageInfo but"),
        (StageInfo(memory_bytes="many"), "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (StageInfo(memory_bytes=1.5), "Expected `int`"),  # type: ignore[arg-type]
        (StageInfo(device=None), "Expected `str`"),  # type: ignore[arg-type]
        (StageInfo(device=object()), "unsupported"),  # type: ignore[arg-type]
        (StageInfo(max_sessions=0), "at least 1"),
        (StageInfo(max_sessions=-3), "at least 1"),
        (StageInfo(max_sessions=2**70), "2"),
    ],
)
def test_what_cannot_be_fails_the_load(
    rig: Any, info: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.model, "load", lambda context: info)
    with pytest.raises(StageLoadError, match=says):
        StageHost(rig.model, clock=lambda: 0.0).load(LoadContext())
