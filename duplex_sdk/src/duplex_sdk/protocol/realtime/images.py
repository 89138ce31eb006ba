"""Images on the wire: JPEG or PNG, told by their first bytes."""

from __future__ import annotations

from typing import Literal

from .base64_text import decode_base64
from .errors import RealtimeProtocolError

__all__ = ["ImageKind", "image_kind", "read_image_url"]

ImageKind = Literal["jpeg", "png"]

_MAGIC: tuple[tuple[bytes, ImageKind], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
)
_URL_HEADS: dict[str, ImageKind] = {
    "data:image/jpeg;base64": "jpeg",
    "data:image/jpg;base64": "jpeg",
    "data:image/png;base64": "png",
}


def image_kind(data: bytes) -> ImageKind | None:
    """What kind of image the bytes begin; None for neither JPEG nor PNG."""
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def read_image_url(url: str, *, param: str) -> bytes:
    """The bytes of an image given as a base64 data URL.

    Raises:
        RealtimeProtocolError: ``invalid_image``, when it is no such URL, or the bytes are not
            the kind of image it claims.
    """
    head, comma, encoded = url.partition(",")
    claimed = _URL_HEADS.get(head.lower())
    if not comma or claimed is None:
        raise RealtimeProtocolError(
            "invalid_image", f"{param} must be a base64 data URL of a JPEG or PNG", param=param
        )
    data = decode_base64(encoded, code="invalid_image", param=param)
    if image_kind(data) != claimed:
        raise RealtimeProtocolError(
            "invalid_image", f"{param} does not hold the image it claims", param=param
        )
    return data
