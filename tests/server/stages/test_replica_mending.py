"""A replica's place is filled again until that succeeds, or until nobody wants it any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from duplex_sdk.stage import StageLoadError, StageSession
from duplex_server.stages import StageReplica, StageUnavailableError


async def test_a_device_that_is_gone_for_a_while_is_looked_for_again(shop: Any) -> None:
    pool = await shop.pool(quick=True)
    keeper = pool._keeper
    make, gone = keeper._make_replica, [2]

    def without_device(replica_id: int) -> StageReplica:
        if gone[0]:
            gone[0] -= 1
            raise StageLoadError("there is no device cuda:0")
        return make(replica_id)

    keeper._make_replica = without_device
    pool.on_dead(keeper._slots[0].replica, "its device fell off the bus")
    await shop.heard.until(lambda: pool.alive)
    assert pool.replicas[0].restarts == 3


async def test_a_replica_evicted_while_it_is_mended_stays_out(shop: Any) -> None:
    pool = await shop.pool(quick=True, replicas=2)
    keeper, tries, often = pool._keeper, [], asyncio.Event()
    slot = keeper._slots[0]

    def broken(replica_id: int) -> StageReplica:
        tries.append(replica_id)
        if len(tries) == 3:
            often.set()
        raise StageLoadError("it is broken")

    keeper._make_replica = broken
    pool.on_dead(slot.replica, "it broke")
    await often.wait()
    await pool.evict(0)
    await asyncio.wait((slot.restarting,))
    assert tries == [0, 0, 0]
    assert [status.state for status in pool.replicas] == ["evicted", "ready"]


async def test_what_a_worker_printed_is_for_health_and_not_for_those_who_are_refused(
    shop: Any,
) -> None:
    pool = await shop.pool(quick=True)
    keeper, tried = pool._keeper, asyncio.Event()

    def broken(replica_id: int) -> StageReplica:
        if pool.replicas[0].restarts == 2:
            tried.set()
        raise StageLoadError("its last line: KeyError: 'top-secret'")

    keeper._make_replica = broken
    pool.on_dead(keeper._slots[0].replica, "it broke")
    await tried.wait()
    assert "top-secret" in pool.replicas[0].reason
    with pytest.raises(StageUnavailableError) as refused:
        pool.open(StageSession("a"))
    assert str(refused.value) == "stage echo has no live replica"
