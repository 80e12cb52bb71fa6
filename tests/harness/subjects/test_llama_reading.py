"""llama.cpp's answers: golden bodies of its server, and what breaks the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from harness.records.recording import Chunk, Counts
from harness.subjects.counts import CountsError
from harness.subjects.end_tokens import visible
from harness.subjects.llama_reading import is_closing, join_events, read_chunk, read_counts, read_reply
from harness.subjects.reading import BrokenBodyError

TIMINGS = {"cache_n": 0, "prompt_n": 16, "prompt_ms": 2.3, "predicted_n": 3, "predicted_ms": 1.5}
BODY: dict[str, Any] = {
    "index": 0,
    "content": "YXx",
    "tokens": [56, 55, 87],
    "id_slot": 0,
    "stop": True,
    "model": "model.gguf",
    "tokens_predicted": 3,
    "tokens_evaluated": 16,
    "truncated": False,
    "stop_type": "limit",
    "stopping_word": "",
    "timings": TIMINGS,
}
SCORED = [
    {"id": 56, "token": "Y", "bytes": [89], "logprob": -0.5, "top_logprobs": [{"id": 56, "token": "Y", "logprob": -0.5}]},
    {"id": 55, "token": "X", "bytes": [88], "logprob": 0.0, "top_logprobs": []},
    {"id": 87, "token": "x", "bytes": [120], "logprob": -2.5, "top_logprobs": [{"id": 46, "token": "O", "logprob": -0.9}]},
]
EVENTS: list[dict[str, Any]] = [
    {"index": 0, "content": "Y", "tokens": [56], "stop": False, "id_slot": -1, "tokens_predicted": 1, "tokens_evaluated": 16},
    {
        "index": 0,
        "content": "Xx",
        "tokens": [55, 87],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": 3,
        "tokens_evaluated": 16,
    },
    {**BODY, "content": "", "tokens": []},
]


def test_a_reply_that_its_budget_ends() -> None:
    reply = read_reply(BODY)
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("YXx", (56, 55, 87), "length", None)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens, reply.response_id) == (16, 3, 0, "")


def test_a_stop_is_named() -> None:
    reply = read_reply({**BODY, "content": "Y", "stop_type": "word", "stopping_word": "Xx"})
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("Y", (56, 55, 87), "stop", "Xx")


def test_an_end_token_is_taken_off_ids_count_and_scores_and_named() -> None:
    reply = read_reply({**BODY, "content": "YX", "stop_type": "eos", "completion_probabilities": SCORED})
    assert (reply.ids, reply.completion_tokens, reply.finish_reason, reply.stop_reason) == ((56, 55), 2, "stop", 87)
    assert reply.logprobs["tokens"] == ["Y", "X"]
    assert read_counts({**BODY, "stop_type": "eos"}).tokens == 2


def test_a_surface_that_was_not_asked_for_ids_has_none() -> None:
    assert read_reply({**BODY, "tokens": []}).ids is None
    assert read_reply({**BODY, "tokens": [], "tokens_predicted": 0, "content": ""}).ids == ()


def test_scores_are_spelled_as_completions_do_and_a_sampled_token_is_among_its_alternatives() -> None:
    got = read_reply({**BODY, "completion_probabilities": SCORED}).logprobs
    assert got == {
        "tokens": ["Y", "X", "x"],
        "token_logprobs": [-0.5, 0.0, -2.5],
        "top_logprobs": [{"Y": -0.5}, {}, {"O": -0.9, "x": -2.5}],
        "text_offset": [0, 1, 2],
    }


def test_counts_are_zero_where_nothing_was_drafted_and_the_fields_are_absent() -> None:
    want = Counts("plain", None, None, 0, 0, None, 3, 0, None, None)
    assert read_counts(BODY) == want


def test_counts_of_drafts() -> None:
    drafted = {**BODY, "timings": {**TIMINGS, "draft_n": 8, "draft_n_accepted": 1}}
    assert read_counts(drafted) == Counts("spec", None, None, 8, 1, None, 3, 0, None, None)


@pytest.mark.parametrize(
    "timings",
    [None, {}, {**TIMINGS, "draft_n": 8}, {**TIMINGS, "draft_n_accepted": 0}, {**TIMINGS, "draft_n": -1, "draft_n_accepted": 0}],
)
def test_counts_that_are_not_whole_are_no_counts(timings: Any) -> None:
    with pytest.raises(CountsError, match="timings"):
        read_counts({**BODY, "timings": timings})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stop_type": "none"}, "stop_type='none'"),
        ({"stop_type": None}, "stop_type=None is no string"),
        ({"tokens": [56]}, "1 tokens beside tokens_predicted=3"),
        ({"tokens": ["a"]}, "is no list of ids"),
        ({"tokens": None}, "is no list of ids"),
        ({"content": None}, "content=None is no string"),
        ({"tokens_predicted": True}, "tokens_predicted=True is no count"),
        ({"tokens_evaluated": -1}, "tokens_evaluated=-1 is no count"),
        ({"timings": {}}, "cache_n=None is no count"),
        ({"completion_probabilities": {}}, "is no list of objects"),
        ({"completion_probabilities": [{"token": "a", "logprob": 0.0}]}, "top_logprobs=None is no list"),
    ],
)
def test_a_body_that_breaks_the_dialect_says_where(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenBodyError, match=message):
        read_reply({**BODY, **changes})


def test_a_stream_adds_up_to_the_unstreamed_body() -> None:
    chunks = [read_chunk(event) for event in EVENTS]
    assert chunks == [Chunk("Y", (56,)), Chunk("Xx", (55, 87)), Chunk("", (), "length", has_usage=True)]
    assert join_events(EVENTS) == BODY
    assert [is_closing(event) for event in EVENTS] == [False, False, True]


def test_an_end_token_s_id_is_shown_by_no_chunk() -> None:
    events = [*EVENTS[:2], {**EVENTS[2], "stop_type": "eos"}]
    reply = read_reply(join_events(events), is_streamed=True)
    chunks = [read_chunk(event) for event in events]
    assert reply.ids == (56, 55)
    assert [chunk.ids for chunk in visible(chunks, reply)] == [(56,), (55,), ()]


def test_the_ids_of_a_stream_are_those_that_it_held() -> None:
    lossy = [{**EVENTS[0], "tokens": []}, *EVENTS[1:]]
    assert read_reply(join_events(lossy), is_streamed=True).ids == (55, 87)


@pytest.mark.parametrize(
    ("events", "message"), [([], "carried no event"), (EVENTS[:2], "does not end it")], ids=["empty", "cut off"]
)
def test_a_stream_without_its_closing_event_is_broken(events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BrokenBodyError, match=message):
        join_events(events)


@pytest.mark.parametrize("event", [None, {"error": {"code": 500}}, {"content": "a", "tokens": []}, {**BODY, "stop_type": "x"}])
def test_an_event_that_breaks_the_dialect_is_broken(event: Any) -> None:
    with pytest.raises(BrokenBodyError, match="stream|body"):
        read_chunk(event)
