"""Measures what this project promises; one table and one JSON file.

Targets are those of a quiet machine. The column ``floor`` holds what next to nothing costs in
the same run: compare ratios to it, not times, between machines.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from .as_served import run_as_served
from .client_import import measure_client_import
from .figure import Figure
from .machine import describe_machine
from .report import print_figures, write_json
from .resampling import measure_resampling
from .session_layer import measure_session_layer
from .socket_layer import measure_socket_layer
from .spoken_latency import measure_spoken_latency
from .start_up import measure_start_up
from .worker_overhead import measure_worker_overhead
from .workload import FULL, SMOKE, Workload

Part = Callable[[Workload, int], list[Figure]]

PARTS: dict[str, tuple[str, Part]] = {
    "client": ("The client", lambda workload, _: measure_client_import(workload.imports)),
    "start": (
        "Starting to serve",
        lambda workload, _: measure_start_up(workload.imports),
    ),
    "session": (
        "The session layer, in process",
        lambda workload, seed: run_as_served(measure_session_layer(workload.units, seed)),
    ),
    "resampling": (
        "Rates that are not the model's, per unit",
        lambda workload, _: measure_resampling(workload.units),
    ),
    "sockets": (
        "The session layer, through real sockets",
        lambda workload, _: asyncio.run(measure_socket_layer(workload.units, workload.sockets)),
    ),
    "workers": (
        "A stage in a process, next to one in a thread",
        lambda workload, _: measure_worker_overhead(workload.units),
    ),
    "spoken": (
        "The local plugin, through real sockets",
        lambda workload, seed: asyncio.run(measure_spoken_latency(workload.spoken, seed)),
    ),
}


def main() -> int:
    """Run the parts asked for; 0 unless one of them cannot be measured at all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, no limits on time")
    parser.add_argument("--only", choices=PARTS, nargs="*", help="these parts and no others")
    parser.add_argument("--seed", type=int, default=1, help="of everything drawn by chance")
    parser.add_argument("--json", type=Path, default=Path("out/benchmarks.json"), help="results")
    arguments = parser.parse_args()

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    workload, machine = SMOKE if arguments.smoke else FULL, describe_machine()
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']},"
        f" load {machine['load']}, seed {arguments.seed}, workload {workload.name}\n"
    )
    figures: list[Figure] = []
    for name in arguments.only or PARTS:
        title, measure = PARTS[name]
        measured = measure(workload, arguments.seed)
        print_figures(console, title, measured)
        figures += measured
    write_json(
        arguments.json,
        figures,
        workload=asdict(workload),
        machine=machine,
        seed=arguments.seed,
    )
    console.print(f"JSON: {arguments.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
