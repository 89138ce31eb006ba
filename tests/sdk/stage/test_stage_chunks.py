from __future__ import annotations

import numpy as np
import pytest
from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage import (
    Array,
    StageConfig,
    StageInputContext,
    StageOutput,
    StagePrompt,
    chunks,
)
from hypothesis import given
from hypothesis import strategies as st

STAGE = StageConfig("codec", model="m:C")


def output(**fields: object) -> StageOutput:
    return StageOutput("s", "r", 0, 1, **fields)  # type: ignore[arg-type]


def handed_on(count: int, outputs: list[StageOutput], **options: str) -> list[StagePrompt]:
    context = StageInputContext(STAGE)
    make = chunks(count, **options)
    return [prompt for each in outputs for prompt in make(each, context)]


def frames(first: int, count: int) -> Array:
    rows = np.arange(first * 3, (first + count) * 3, dtype="<i2").reshape(count, 3)
    return Array(rows.tobytes(), "int16", rows.shape)


def values(prompts: list[StagePrompt]) -> list[int]:
    joined = b"".join(prompt.arrays["codes"].data for prompt in prompts if prompt.arrays)
    return np.frombuffer(joined, "<i2").tolist()


@given(st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1), st.integers(1, 5))
def test_tokens_arrive_whole_in_order_and_in_chunks(parts: list[list[int]], count: int) -> None:
    outputs = [output(token_ids=tuple(part)) for part in parts]
    outputs.append(output(end_of_turn=True))
    prompts = handed_on(count, outputs)
    assert [token for prompt in prompts for token in prompt.token_ids] == [
        token for part in parts for token in part
    ]
    assert all(len(prompt.token_ids) == count for prompt in prompts[:-1])
    assert len(prompts[-1].token_ids) <= count
    assert [prompt.final for prompt in prompts] == [False] * (len(prompts) - 1) + [True]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(1, 5))
def test_rows_arrive_whole_in_order_and_in_chunks(parts: list[int], count: int) -> None:
    starts = np.cumsum([0, *parts])
    outputs = [
        output(arrays={"codes": frames(int(start), rows)})
        for start, rows in zip(starts, parts, strict=False)
    ]
    outputs[-1] = output(arrays=outputs[-1].arrays, end_of_turn=True)
    prompts = handed_on(count, outputs, array="codes")
    assert values(prompts) == list(range(3 * sum(parts)))
    shapes = [prompt.arrays["codes"].shape for prompt in prompts if prompt.arrays]
    assert all(shape == (count, 3) for shape in shapes[:-1])
    assert prompts[-1].final


def test_a_chunk_leaves_as_soon_as_it_is_full() -> None:
    make, context = chunks(3), StageInputContext(STAGE)
    assert not make(output(token_ids=(1, 2)), context)
    (prompt,) = make(output(token_ids=(3, 4)), context)
    assert (prompt.kind, prompt.token_ids, prompt.final) == ("stage", (1, 2, 3), False)


def test_text_and_data_travel_with_the_next_chunk() -> None:
    outputs = [
        output(token_ids=(1,), text="al", data={"a": 1}),
        output(token_ids=(2, 3, 4, 5), text="so", data={"b": 2}, audio=PcmChunk(bytes(4), 8)),
        output(end_of_turn=True),
    ]
    first, second, last = handed_on(2, outputs)
    assert (first.text, first.data, first.audio) == ("also", {"a": 1, "b": 2}, None)
    assert (second.text, second.data) == (None, {})
    assert (last.token_ids, last.final) == ((5,), True)


def test_the_bare_end_of_a_turn_is_handed_on_and_the_next_turn_begins_anew() -> None:
    turn = [output(token_ids=(1, 2)), output(end_of_turn=True)]
    prompts = handed_on(2, [*turn, *turn])
    assert [(prompt.token_ids, prompt.final) for prompt in prompts] == [
        ((1, 2), False),
        ((), True),
    ] * 2


def test_rows_that_do_not_fit_together_are_refused() -> None:
    narrow = Array(bytes(4), "int16", (1, 2))
    with pytest.raises(ValueError, match="rows of 'codes'"):
        handed_on(
            4,
            [output(arrays={"codes": frames(0, 1)}), output(arrays={"codes": narrow})],
            array="codes",
        )
    # Another turn may have other rows.
    prompts = handed_on(
        1,
        [
            output(arrays={"codes": frames(0, 1)}, end_of_turn=True),
            output(arrays={"codes": narrow}, end_of_turn=True),
        ],
        array="codes",
    )
    assert [prompt.arrays["codes"].shape for prompt in prompts] == [(1, 3), (1, 2)]


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        chunks(0)
