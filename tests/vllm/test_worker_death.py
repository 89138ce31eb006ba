"""vLLM's own processes die: who is told, and that all is well again afterwards."""

from __future__ import annotations

import os
import signal

from duplex_sdk.stage.worker.descendants import shared_memory_of
from patience import eventually
from processes import descendants, runs
from stage_talk import Talk

RESTART_S = 240.0


async def test_the_end_of_the_engine_ends_its_sessions_and_it_is_started_again(
    stage: Talk,
) -> None:
    (replica,) = stage.the_pool.replicas
    assert replica.pid is not None
    ours = descendants(replica.pid)
    # Its process says so by its name; the one that computes is its child.
    core = min(pid for pid, command in ours.items() if "EngineCore" in command)
    session_id = stage.open("mourner", max_tokens=200)
    stage.submit(session_id, 1)
    await stage.until(lambda: bool(stage.said[session_id]))
    shared = shared_memory_of(replica.pid)
    assert shared, "what its processes talk through"
    ready = len(stage.ready)
    os.kill(core, signal.SIGKILL)
    await stage.until(lambda: session_id in stage.failed)
    error = stage.failed[session_id]
    assert (error.code, error.scope) == ("runtime_failed", "session")
    assert stage.dead[-1][1] == (session_id,)
    await eventually(lambda: not any(map(runs, (replica.pid or 0, *ours))))
    await eventually(lambda: not any(map(os.path.exists, shared)))
    await stage.until(lambda: len(stage.ready) > ready, RESTART_S)
    assert len(await stage.fresh([1, 2])) == 4
