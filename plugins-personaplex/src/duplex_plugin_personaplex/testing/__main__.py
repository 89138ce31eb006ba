"""``python -m duplex_plugin_personaplex.testing DIR`` writes a tiny checkpoint there."""

from __future__ import annotations

import sys
from pathlib import Path

from .tiny_checkpoint import write_tiny_checkpoint

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m duplex_plugin_personaplex.testing DIR")
    write_tiny_checkpoint(Path(sys.argv[1]))
