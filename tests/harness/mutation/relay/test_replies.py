"""Faults of whole replies: what each changes, in both dialects, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.relay.replies import block_edge, cut, held_back, spliced
from harness.mutation.relay.said import LENGTH, WORD, Said
from tests.harness.mutation.relay import bodies
from tests.harness.mutation.relay.bodies import asked, fault, llama, openai

LETTERS = st.text(alphabet="abcdefgh", min_size=2, max_size=12)


def said_of(name: str, dialect: str = "openai", body: Any = None, request: Any = None, **table: Any) -> Said | None:
    """Return what a reply says once a fault has had it; None where the fault left it alone."""
    one = fault(name, dialect, **table)
    given_body = body if body is not None else {"openai": openai, "llama": llama}[dialect]()
    changed = one.answer(request or asked(), 200, given_body)
    return None if changed is None else one.speech.said(changed[1])


@given(LETTERS, st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_a_doubled_token_moves_what_is_behind_it_and_a_dropped_one_takes_it_away(text: str, place: int) -> None:
    place = min(place, len(text) - 1)
    said = Said(tuple(map(ord, text)), text, LENGTH, None)
    doubled, dropped = spliced(said, place, added=1), spliced(said, place, removed=1)
    assert doubled.text == text[:place] + text[place - 1] + text[place:]
    assert dropped.text == text[:place] + text[place + 1 :]
    for changed in (doubled, dropped):
        assert changed.ids == tuple(map(ord, changed.text))
    assert cut(doubled, len(text)).num_tokens == len(text)


def test_a_block_edge_is_behind_the_first_drafts_that_were_accepted() -> None:
    said = Said(bodies.IDS, bodies.TEXT, LENGTH, None)
    assert block_edge(said, bodies.RECORD) == 3  # 11, 12 are the second and the third token
    assert block_edge(said, {"per_round": [[[11, 12], 0]]}) == block_edge(said, None) == 3
    assert block_edge(said, {"per_round": [[[14, 99], 1]]}) == 5


@pytest.mark.parametrize("dialect", ["openai", "llama"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("token-doubled", "abccde"),
        ("token-dropped", "abcef"),
        ("token-extra", "abcdeff"),
        ("token-repeated", "abcdea"),
        ("text-lost", "abcde"),
    ],
)
def test_faults_of_tokens_change_text_and_ids_alike(name: str, text: str, dialect: str) -> None:
    said = said_of(name, dialect)
    assert said is not None
    assert said.text == text
    want = bodies.IDS if name == "text-lost" else tuple(ord(character) - ord("a") + 10 for character in text)
    assert said.ids == want


@pytest.mark.parametrize("dialect", ["openai", "llama"])
def test_a_reply_without_accepted_drafts_is_left_alone_where_the_fault_is_for_those_with_some(dialect: str) -> None:
    plain = {"openai": openai(record={**bodies.RECORD, "drafted": 0, "accepted": 0}), "llama": llama(drafted=None)}[dialect]
    assert said_of("token-doubled", dialect, plain, when={"accepted": True}) is None
    assert said_of("token-doubled", dialect, when={"accepted": True}) is not None


def test_a_stop_gives_way_to_the_budget_with_its_text() -> None:
    stopped = openai("abcd", bodies.IDS, "stop", "ef")
    assert said_of("finish-other", body=stopped) == Said(bodies.IDS, "abcdef", LENGTH, None)
    assert said_of("finish-other") == Said(bodies.IDS, bodies.TEXT, WORD, None)
    assert said_of("stop-reason-missing", body=stopped) == Said(bodies.IDS, "abcd", WORD, None)
    assert said_of("stop-reason-missing") is None


@given(LETTERS, st.lists(st.text(alphabet="abcdefgh", min_size=1, max_size=4), max_size=3))
@settings(max_examples=60, deadline=None)
def test_what_is_held_back_begins_a_stop_and_nothing_longer_does(text: str, stops: list[str]) -> None:
    size = held_back(text, stops)
    tails = [text[-length:] for length in range(1, len(text) + 1)]
    begins = [tail for tail in tails if any(stop.startswith(tail) and stop != tail for stop in stops)]
    assert size == max(map(len, begins), default=0)


def test_text_that_could_become_a_stop_is_lost_at_the_budget() -> None:
    lost = said_of("text-held-back-lost", request=asked(stop=["efX"]))
    assert lost is not None
    assert (lost.text, lost.ids) == ("abcd", bodies.IDS)
    assert said_of("text-held-back-lost", request=asked(stop=["xyz"])) is None


@pytest.mark.parametrize("dialect", ["openai", "llama"])
def test_a_prompt_is_one_token_longer(dialect: str) -> None:
    one = fault("usage-wrong", dialect)
    body = {"openai": openai, "llama": llama}[dialect]()
    changed = one.answer(asked(), 200, body)
    assert changed is not None
    length = changed[1]["usage"]["prompt_tokens"] if dialect == "openai" else changed[1]["tokens_evaluated"]
    assert length == 5
    assert one.speech.said(changed[1]) == one.speech.said(body)


def test_a_stale_reply_is_the_former_one_under_its_own_id() -> None:
    one = fault("reply-stale", when={"first": 2})
    first, second = openai("abc", (1, 2, 3)), {**openai("xyz", (7, 8, 9)), "id": "cmpl-8"}
    assert one.answer(asked(1), 200, first) is None
    assert one.answer(asked(2), 200, second) == (200, {**first, "id": "cmpl-8"})
    assert one.answer(asked(3), 400, {"error": {}}) is None
    assert one.answer(asked(4), 200, first) == (200, {**second, "id": "cmpl-7"})


def test_a_neighbours_token_comes_from_a_reply_that_was_finished_meanwhile_and_from_no_other() -> None:
    one = fault("reply-of-a-neighbour")
    requests = [asked(number) for number in (1, 2, 3)]
    for request in requests[:2]:
        assert one.request(request) is None
    assert one.answer(requests[0], 200, openai("xyz", (1, 2, 3))) is None
    changed = one.answer(requests[1], 200, openai("abc", (7, 8, 9)))
    assert changed is not None
    assert one.speech.said(changed[1]) == Said((1, 7, 8), "xab", LENGTH, None)
    one.request(requests[2])
    assert one.answer(requests[2], 200, openai("abc", (7, 8, 9))) is None


def test_what_a_client_that_left_was_shown_comes_first_in_the_next_reply_once() -> None:
    one = fault("reply-left-behind")
    one.left(asked(), "uvw")
    changed = one.answer(asked(2), 200, openai("abc", (7, 8, 9)))
    assert changed is not None
    assert one.speech.said(changed[1]) == Said((7, 8, 9), "wab", LENGTH, None)
    assert one.answer(asked(3), 200, openai("abc", (7, 8, 9))) is None


@pytest.mark.parametrize("how", ["row-before", "zero", "missing"])
def test_wrong_scores_are_those_of_the_row_before_zero_or_none(how: str) -> None:
    one = fault("scores-wrong", how=how)
    body = openai()
    assert one.answer(asked(), 200, body) is None  # it has none
    body["choices"][0]["logprobs"] = {name: [row[name] for row in bodies.SCORES] for name in bodies.SCORES[0]}
    changed = one.answer(asked(), 200, body)
    assert changed is not None
    scores = one.speech.scores(changed[1])
    if how == "missing":
        assert scores is None
        return
    assert scores is not None
    assert [row["tokens"] for row in scores] == list(bodies.TEXT)
    rows = [row["token_logprobs"] for row in scores]
    before = [row["token_logprobs"] for row in bodies.SCORES]
    assert rows == ([0.0] * 6 if how == "zero" else [before[0], *before[:-1]])


@pytest.mark.parametrize("dialect", ["openai", "llama"])
def test_a_refusal_becomes_an_empty_reply_and_a_failure_stays_one(dialect: str) -> None:
    one = fault("bad-body-served", dialect)
    served = one.answer(asked(), 400, {"error": {"message": "no"}})
    assert served is not None
    assert served[0] == 200
    assert one.speech.said(served[1]) is not None
    assert one.answer(asked(), 500, {"error": {}}) is None
    assert one.answer(asked(), 200, {"openai": openai, "llama": llama}[dialect]()) is None
