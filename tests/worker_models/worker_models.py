"""Models that tests run in workers; found through ``PYTHONPATH``, like a plugin's package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageLoadError,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)


class Obedient(StageModel[dict[str, Any]]):
    """Does what a unit's ``data`` orders, else says its text; ``options`` order the load."""

    def load(self, context: LoadContext) -> StageInfo:
        options = context.options
        context.progress(0.25, "weights")
        if "load_error" in options:
            raise StageLoadError(options["load_error"], "try another")
        if "load_raises" in options:
            raise RuntimeError(options["load_raises"])
        if "load_exits" in options:
            print("no such kernel", file=sys.stderr, flush=True)
            os._exit(options["load_exits"])
        time.sleep(options.get("load_s", 0))
        if "die_at" in options and Path(options["die_at"]).exists():
            os.kill(os.getpid(), signal.SIGABRT)
        if options.get("prints"):
            os.write(1, options["prints"])
        if options.get("warning"):
            warnings.warn(options["warning"], stacklevel=1)
        if options.get("child"):
            self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.device = context.device
        self.replica_id = context.replica_id
        return StageInfo(context.device, 5_000, options.get("max_sessions"))

    def open(self, session: StageSession) -> dict[str, Any]:
        if "open_error" in session.config:
            raise ValueError(session.config["open_error"])
        return {"id": session.session_id, "config": session.config}

    def step_unit(self, unit: StageUnit[dict[str, Any]], now: float) -> Iterable[StageOutput]:
        order = dict(unit.prompt.data)
        if "sleep_s" in order:
            time.sleep(order["sleep_s"])
        if "exit" in order:
            os._exit(order["exit"])
        if "raise" in order:
            raise ValueError(order["raise"])
        if "huge" in order:
            return [unit.output(data={"huge": bytes(order["huge"])})]
        if "odd" in order:
            return [unit.output(text="before"), unit.output(data={"odd": object()})]
        if "again_ms" in order:
            return [unit.output(again_ms=order["again_ms"])]
        if unit.prompt.audio is not None:
            return [unit.output(audio=unit.prompt.audio)]
        return [unit.output(text=unit.prompt.text or unit.prompt.kind)]

    def update(self, state: dict[str, Any], session: StageSession) -> None:
        state["config"] = session.config

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        answers = {
            "pid": os.getpid(),
            "device": self.device,
            "odd": object(),
            "child": getattr(getattr(self, "child", None), "pid", None),
            "secret": [name for name in os.environ if "SECRET" in name],
            "echo": arguments,
        }
        return answers[method] if method in answers else super().call(method, arguments)


class Counting(StageModel[list[int]]):
    """Computes batches: answers audio with as much audio, and tells the batch's size."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> list[int]:
        return []

    def step(self, units: Any, now: float) -> Iterable[StageOutput]:
        for unit in units:
            audio = unit.prompt.audio
            answer = PcmChunk(audio.data, audio.rate) if audio is not None else None
            yield unit.output(audio=answer, data={"batch": len(units)})
