from __future__ import annotations

import re
from pathlib import Path

from duplex_sdk.testing.conformance.run import law_levels

PAGE = Path(__file__).parents[4] / "docs" / "plugins.md"


def test_the_page_lists_every_level_in_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Knowing that it is right\n")[2]
    table = section.partition("\n\n| level ")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| ([a-z]+) \|", table, re.M)
    assert listed == list(dict.fromkeys(law_levels().values()))


def test_there_are_as_many_laws_as_the_page_says() -> None:
    assert 79 <= len(law_levels()) <= 89
