"""What a model says of itself once it is loaded, checked before anybody counts on it."""

from __future__ import annotations

import msgspec

from duplex_sdk.stage.model import StageInfo, StageLoadError

__all__ = ["checked_info"]


def checked_info(info: object, model: str) -> StageInfo:
    """What a model's ``load`` returned, if it is what a worker could tell an engine.

    Args:
        info: it.
        model: its class, for people.

    Raises:
        StageLoadError: it is none, or a field of it cannot be.
    """
    if not isinstance(info, StageInfo):
        raise StageLoadError(f"{model}.load returned no StageInfo but {info!r}")
    try:
        # As it would cross: nothing checks the fields of one that is made here.
        msgspec.msgpack.decode(msgspec.msgpack.encode(info), type=StageInfo)
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise StageLoadError(f"{model}.load returned {info!r}: {error}") from error
    if info.max_sessions is not None and info.max_sessions < 1:
        raise StageLoadError(f"{model}.load returned {info!r}: max_sessions must be at least 1")
    return info
