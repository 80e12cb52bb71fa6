"""SGLang's answers: bodies as its source makes them, and what breaks the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from harness.records.recording import Chunk, Counts
from harness.subjects.counts import CountsError
from harness.subjects.reading import BrokenBodyError
from harness.subjects.sglang_reading import join_events, read_chunk, read_counts, read_reply

META: dict[str, Any] = {
    "id": "9f",
    "finish_reason": {"type": "length", "length": 3},
    "prompt_tokens": 16,
    "weight_version": "default",
    "num_retractions": 0,
    "reasoning_tokens": 0,
    "completion_tokens": 3,
    "cached_tokens": 2,
    "e2e_latency": 0.5,
}
SPEC = {"spec_verify_ct": 2, "spec_num_proposed_drafts": 8, "spec_num_correct_drafts": 1, "spec_accept_rate": 0.125}
BODY: dict[str, Any] = {"text": "YXx", "output_ids": [56, 55, 87], "meta_info": META}


def body(**meta: Any) -> dict[str, Any]:
    return {**BODY, "meta_info": {**META, **meta}}


def test_a_reply_that_its_budget_ends() -> None:
    reply = read_reply(BODY)
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("YXx", (56, 55, 87), "length", None)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens, reply.response_id) == (16, 3, 2, "9f")


def test_a_stop_is_named_and_an_end_token_taken_off() -> None:
    stopped = read_reply(body(finish_reason={"type": "stop", "matched": "x"}))
    assert (stopped.ids, stopped.stop_reason, stopped.completion_tokens) == ((56, 55, 87), "x", 3)
    ended = read_reply(body(finish_reason={"type": "stop", "matched": 87}))
    assert (ended.ids, ended.stop_reason, ended.completion_tokens) == ((56, 55), 87, 2)


def test_counts_are_its_own_and_absent_where_no_verify_ran() -> None:
    reply = read_reply(BODY)
    assert read_counts(body(**SPEC), reply, may_lack=True) == Counts("spec", None, 2, 8, 1, None, 3, 2, None, None)
    assert read_counts(BODY, reply, may_lack=True) == Counts("plain", None, 0, 0, 0, None, 3, 2, None, None)
    with pytest.raises(CountsError, match="spec_verify_ct is missing"):
        read_counts(BODY, reply, may_lack=False)
    with pytest.raises(CountsError, match="come together or not at all; found spec_verify_ct"):
        read_counts(body(spec_verify_ct=2), reply, may_lack=True)
    with pytest.raises(CountsError, match="spec_num_correct_drafts='1' is no count"):
        read_counts(body(**{**SPEC, "spec_num_correct_drafts": "1"}), reply, may_lack=True)


def test_scores_become_openais_and_hold_the_token_among_its_alternatives() -> None:
    scores = [[-0.5, 56, "Y"], [-1, 55, "X"], [-2.5, 87, "x"]]
    best = [[[-0.5, 56, "Y"]], None, [[-0.9, 46, "O"]]]
    logprobs = read_reply(body(output_token_logprobs=scores, output_top_logprobs=best)).logprobs
    assert logprobs == {
        "tokens": ["Y", "X", "x"],
        "token_logprobs": [-0.5, -1.0, -2.5],
        "top_logprobs": [{"Y": -0.5}, {}, {"O": -0.9, "x": -2.5}],
        "text_offset": [0, 1, 2],
    }
    assert read_reply(BODY).logprobs is None


def test_events_hold_what_is_new_and_add_up() -> None:
    events = [
        {
            "text": "Y",
            "output_ids": [56],
            "meta_info": {**META, "finish_reason": None, "output_token_logprobs": [[-0.5, 56, "Y"]]},
        },
        {
            "text": "Xx",
            "output_ids": [55, 87],
            "meta_info": {**META, **SPEC, "output_token_logprobs": [[-1, 55, "X"], [-2, 87, "x"]]},
        },
    ]
    assert [read_chunk(event) for event in events] == [Chunk("Y", (56,)), Chunk("Xx", (55, 87), "length", has_usage=True)]
    joined = join_events(events)
    reply = read_reply(joined)
    assert (reply.text, reply.ids, reply.logprobs and reply.logprobs["token_logprobs"]) == (
        "YXx",
        (56, 55, 87),
        [-0.5, -1.0, -2.0],
    )
    counts = read_counts(joined, reply, may_lack=True)
    assert (counts.rounds, counts.drafted) == (2, 8)
    with pytest.raises(BrokenBodyError, match="carried no event"):
        join_events([])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({}, "meta_info=None is no object"),
        ({**BODY, "text": None}, "text=None is no string"),
        ({**BODY, "output_ids": ["a"]}, "no list of ids"),
        (body(completion_tokens=4), "3 output_ids beside meta_info.completion_tokens=4"),
        (body(completion_tokens="3"), "completion_tokens='3' is no count"),
        (body(id=7), "id=7 is no string"),
        (body(finish_reason=None), "want how the reply ended"),
        (body(finish_reason={"type": "abort", "message": "m"}), "want type length or stop"),
        (body(finish_reason={"type": "stop", "matched": [1]}), "want type length or stop, and what matched"),
        (body(output_token_logprobs=[["a"]]), r"score \['a'\]; want \[logprob, id, text\]"),
        (body(output_token_logprobs=[[-1, 1, "a"]], output_top_logprobs=[None, None]), "are no two lists of one length"),
    ],
)
def test_what_breaks_the_dialect_is_named(broken: Any, message: str) -> None:
    with pytest.raises(BrokenBodyError, match=message):
        read_reply(broken)


def test_an_error_in_a_stream_is_no_chunk() -> None:
    with pytest.raises(BrokenBodyError, match="carried"):
        read_chunk({"error": {"message": "no"}})
