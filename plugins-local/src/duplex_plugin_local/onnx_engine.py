"""One way to open an ONNX model: on the CPU, on one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnxruntime as ort
from duplex_sdk.stage import StageLoadError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["open_model"]


def open_model(path: Path) -> ort.InferenceSession:
    """Open a model for one thread.

    One thread per engine: all sessions share the process, and threads that spin for work cost the
    others more than they gain on two cores.

    Raises:
        StageLoadError: onnxruntime does not take the file.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # onnxruntime's exceptions have no common root that it exports.
        raise StageLoadError(
            f"onnxruntime cannot open {path}: {error}",
            hint="pip install --force-reinstall 'onnxruntime>=1.20,<2'",
        ) from error
