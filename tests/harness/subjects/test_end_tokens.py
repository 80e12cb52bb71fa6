"""An end token that an engine lists and counts is taken off; a stop string's reply is left as it is."""

from __future__ import annotations

import msgspec
import pytest

from harness.records.recording import Chunk, Reply
from harness.subjects.end_tokens import visible, without

SCORES = {"tokens": ["a", "b", "<|im_end|>"], "token_logprobs": [-1.0, -2.0, -3.0], "other": "as it is"}
ENDED = Reply("r", "ab", (64, 65, 185), "stop", None, 4, 3, logprobs=SCORES)


def test_an_end_token_leaves_ids_count_and_scores_and_becomes_the_stop_reason() -> None:
    want = Reply(
        "r",
        "ab",
        (64, 65),
        "stop",
        185,
        4,
        2,
        logprobs={"tokens": ["a", "b"], "token_logprobs": [-1.0, -2.0], "other": "as it is"},
    )
    assert without(ENDED) == want


@pytest.mark.parametrize(
    "changes",
    [
        {"finish_reason": "length"},
        {"stop_reason": "b"},
        {"ids": None, "completion_tokens": None},
        {"ids": None, "completion_tokens": 0},
    ],
)
def test_what_no_end_token_ended_or_of_which_nothing_is_known_is_left(changes: dict[str, object]) -> None:
    reply = msgspec.structs.replace(ENDED, **changes)
    assert without(reply) == reply


def test_without_ids_the_count_alone_tells_it() -> None:
    got = without(msgspec.structs.replace(ENDED, ids=None, logprobs=None))
    assert (got.ids, got.stop_reason, got.completion_tokens) == (None, None, 2)


def test_a_stream_shows_the_end_token_in_its_last_chunk_that_holds_an_id() -> None:
    chunks = (Chunk("a", (64,)), Chunk("b", (65, 185), "stop"), Chunk("", has_usage=True))
    assert visible(chunks, without(ENDED)) == (Chunk("a", (64,)), Chunk("b", (65,), "stop"), Chunk("", has_usage=True))
    assert visible(chunks, ENDED) == chunks
    assert visible(chunks, msgspec.structs.replace(ENDED, ids=None)) == chunks
