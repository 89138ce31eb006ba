"""`make new-user`: what somebody does who has never seen this repository, timed step by step.

In a folder of their own and a fresh environment they install our wheels and a torch, write a plugin
with `duplex new-plugin`, install it, run its tests and serve it; a stock client of OpenAI, from
another fresh environment, speaks to it. No file is edited. Packages of others come from the
package index, so this needs one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duplex_plugin_local.recordings import two_cities
from duplex_sdk.audio import PcmChunk, read_wav, resample, write_wav

SCRIPTS = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
NAME = "acme-voice"
SPEECH_S = 3.0
RATE_HZ = 24_000
LIMIT_S = 300.0
START_S = 60.0


class Journey:
    """The steps so far, and how long each of them took.

    Attributes:
        folder: where everything is done.
        took: seconds by step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.took: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        began = time.monotonic()
        yield
        self.took[name] = time.monotonic() - began
        print(f"{self.took[name]:7.1f} s  {name}", flush=True)

    def run(self, name: str, *command: str | Path) -> None:
        """One step that is one command.

        Raises:
            SystemExit: it failed; its output is printed.
        """
        with self.step(name):
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=clean_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\nerror: {name} failed with {done.returncode}")


def clean_environment() -> dict[str, str]:
    """Nothing of the environment that this script runs in is seen by its children."""
    ours = ("PYTHON", "VIRTUAL_ENV", "DUPLEX_", "PYTEST_")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


@contextmanager
def serving(journey: Journey, duplex: Path) -> Iterator[str]:
    """`duplex serve --plugin acme-voice` on a free port; its address."""
    log = journey.folder / "serve.log"
    with log.open("w") as out:
        command = [str(duplex), "serve", "--plugin", NAME, "--port", "0"]
        process = subprocess.Popen(
            command, cwd=journey.folder, env=clean_environment(), stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + START_S
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{log.read_text()}\nerror: the server does not start")
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait(START_S)


def travel(journey: Journey, kind: str) -> dict[str, object]:
    """The whole way, from the wheels to the first answer."""
    folder = journey.folder
    build = (sys.executable, SCRIPTS / "distributions.py", folder / "wheels")
    journey.run("build the wheels (not the user's work)", *build)
    # A model plugin is one such user's own choice; the others are what everybody installs.
    wheels = [
        wheel
        for wheel in sorted((folder / "wheels").glob("*.whl"))
        if not wheel.name.startswith("duplex_plugin_") or "_local-" in wheel.name
    ]
    with journey.step("make two clean environments (taken to be there)"):
        for name in ("env", "client"):
            venv.create(folder / name, with_pip=True, symlinks=True)
    ours, clients = folder / "env" / "bin", folder / "client" / "bin"
    pip = (ours / "python", "-m", "pip", "install", "--quiet")
    if kind == "frame":
        journey.run("install torch (taken to be there)", *pip, TORCH)
    journey.run("install our wheels", *pip, *wheels)
    journey.run("duplex new-plugin", ours / "duplex", "new-plugin", NAME, "--kind", kind)
    journey.run("install the new plugin", *pip, "-e", f"{NAME}[dev]")
    journey.run("pytest", ours / "pytest", "-q", NAME)
    client_pip = (clients / "python", "-m", "pip", "install", "--quiet")
    journey.run("install the stock client", *client_pip, "openai[realtime]")
    speech = folder / "speech.wav"
    recording = resample(read_wav(two_cities()), RATE_HZ)
    write_wav(speech, PcmChunk(recording.data[: int(SPEECH_S * RATE_HZ) * 4], RATE_HZ))
    with serving(journey, ours / "duplex") as url, journey.step("the client talks to it"):
        command = [str(clients / "python"), str(SCRIPTS / "stock_client.py"), url, str(speech)]
        done = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{done.stderr}\nerror: the stock client got no answer")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def main() -> int:
    """Go the way once and say how long it took; 0 when there was an answer in time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="frame", choices=["frame", "turn", "minimal"])
    kind = parser.parse_args().kind
    with tempfile.TemporaryDirectory(prefix="new-user-") as folder:
        journey = Journey(Path(folder))
        answer = travel(journey, kind)
    not_theirs = [step for step in journey.took if step.endswith(")")]
    total = sum(journey.took.values()) - sum(journey.took[step] for step in not_theirs)
    print(f"{total:7.1f} s  in all, of {LIMIT_S:.0f}; the answer: {json.dumps(answer)}")
    heard = answer["status"] == "completed" and bool(answer["heard_ms"])
    return 0 if heard and total <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
