"""Where the stages of a pipeline run: pools of replicas on the backends of this installation.

The engine makes the pools of a pipeline with ``build_pools``, loads them with ``start_pools``, and
then talks to each ``StagePool``: ``open`` a session, ``submit`` its units while ``room`` says so,
``update``, ``cancel``, ``hold``, ``close``. What comes of it is told to its ``StageListener``.
Everything happens on the engine loop.
"""

from __future__ import annotations

from .deployment import Deployment
from .errors import (
    NoCreditError,
    RequestCancelledError,
    StageCallError,
    StageSettingError,
    StageUnavailableError,
)
from .listener import StageListener
from .pipeline import build_pools, call_pools, start_pools, stop_pools
from .pool import CREDIT, StagePool
from .replica import Progress, ReplicaSink, StageReplica
from .replica_keeper import ReplicaState, ReplicaStatus
from .restart_policy import RestartPolicy

__all__ = [
    "CREDIT",
    "Deployment",
    "NoCreditError",
    "Progress",
    "ReplicaSink",
    "ReplicaState",
    "ReplicaStatus",
    "RequestCancelledError",
    "RestartPolicy",
    "StageCallError",
    "StageListener",
    "StagePool",
    "StageReplica",
    "StageSettingError",
    "StageUnavailableError",
    "build_pools",
    "call_pools",
    "start_pools",
    "stop_pools",
]
