"""``duplex doctor`` on machines that run stages: does a worker's machine listen where it should?"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from duplex_sdk.discovery import Check
from duplex_sdk.stage.worker.address import host_and_port
from duplex_sdk.stage.worker.proof import GREETING

from duplex_server.settings import ResolvedSettings

__all__ = ["machine_checks"]

_TIMEOUT_S = 2.0


def machine_checks(resolved: ResolvedSettings) -> Iterator[Check]:
    """One check for each address; no worker is started there, so the secret is not tried.

    Raises:
        StageSettingError: an address is none, or there is no secret.
    """
    deployment = resolved.deployment
    places = (place for stage_id in deployment.stages for place in deployment.places_of(stage_id))
    for address in dict.fromkeys(place.address for place in places):
        yield _check(address)


def _check(address: str) -> Check:
    try:
        with socket.create_connection(host_and_port(address), _TIMEOUT_S) as stream:
            greeting = stream.recv(len(GREETING), socket.MSG_WAITALL)
    except OSError as error:
        return Check(
            "workers",
            False,
            f"{address} does not answer: {error.strerror or error}",
            f"start it there: duplex worker --listen {address}",
        )
    if greeting != GREETING:
        return Check(
            "workers",
            False,
            f"what listens at {address} is no duplex worker of this version",
            "install the same version of duplex-sdk on both machines",
        )
    return Check("workers", True, f"{address} takes engines")
