"""Paths under transformers' assisted generation, by cases worked out by hand from its rules."""

from __future__ import annotations

import pytest

from harness.oracle.assisted import look_up, walk_assisted
from harness.oracle.loop import Said
from harness.oracle.predict import Known, Prediction, predict
from harness.oracle.streamwise import drafter_of
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Reply, Round

PROMPT = (1, 2, 3, 4, 5, 6, 1, 2)
SAID = (3, 4, 5, 9, 1, 2, 3)


def walked(said: Said, k: int = 4, ends: tuple[int, ...] = ()) -> list[tuple[int, tuple[int, ...], int]] | None:
    trace = walk_assisted(PROMPT, said, drafter_of("prompt-lookup-2", k, {}, ends))
    return None if trace is None else [(step.index, step.drafts, step.accepted) for step in trace.steps]


def test_the_first_pass_drafts_on_the_bare_prompt_and_ends_with_a_token_of_the_models_own() -> None:
    assert walked(Said(SAID, 7)) == [(0, (3, 4, 5, 6), 3), (4, (), 0), (5, (2, 3, 4, 5), 1)]


def test_a_block_at_the_budget_keeps_its_last_token_for_the_model_though_it_matches() -> None:
    assert walked(Said(SAID[:3], 3)) == [(0, (3, 4, 5, 6), 2)]
    assert walked(Said(SAID[:1], 1)) == [(0, (), 0)]


def test_the_last_token_of_the_budget_is_not_drafted_for() -> None:
    assert walked(Said(SAID[:5], 5)) == [(0, (3, 4, 5, 6), 3), (4, (), 0)]


def test_an_end_token_is_the_last_of_its_pass_wherever_it_stood_in_the_block() -> None:
    assert walked(Said(SAID[:2], 7, end_token=5)) == [(0, (3, 4, 5, 6), 2)]
    assert walked(Said(SAID[:2], 7, end_token=5), ends=(5,)) == [(0, (3, 4), 2)]


def test_a_reply_that_a_stop_string_ended_is_not_predicted() -> None:
    assert walked(Said(SAID[:3], 7, stopped=True)) is None


def test_a_draft_model_that_was_not_asked_is_not_predicted() -> None:
    assert walk_assisted(PROMPT, Said(SAID, 7), drafter_of("draft-model-2", 2, {})) is None


def test_an_assistant_drafts_up_to_an_end_token_and_no_more_than_the_budget_leaves() -> None:
    spoken = {PROMPT: (3, 4, 7), (*PROMPT, 3, 4, 5): (9, 1, 7)}
    trace = walk_assisted(PROMPT, Said(SAID[:5], 5), drafter_of("draft-model-3", 3, spoken, (4,)))
    assert trace is not None
    assert [(step.drafts, step.accepted) for step in trace.steps] == [((3, 4), 2), ((9,), 1)]


@pytest.mark.parametrize(
    ("stream", "want"),
    [
        ((7, 8, 1, 7, 8, 2, 7, 8), (1, 7, 8)),  # the earliest place
        ((1, 8, 5, 7, 8, 2, 7, 8), (2, 7, 8)),  # two tokens before one
        ((1, 8, 5, 7, 8), (5, 7, 8)),  # one token where two have no place
        ((1, 2, 3), ()),
        ((8, 8), (8,)),
        ((5,), ()),
        ((7, 8, 6, 1, 7, 8, 2, 7, 8), ()),  # an end token first: no other place is looked at
        ((7, 8, 1, 6, 7, 8), (1,)),
    ],
    ids=str,
)
def test_prompt_lookup_copies_what_follows_the_earliest_place_of_the_longest_suffix(
    stream: tuple[int, ...], want: object
) -> None:
    assert look_up(stream, 2, 3, ends=(6,)) == want


DECLARED = Declared(
    {"lookup": ArmFacts("prompt-lookup", "prompt-lookup-2", samples_alike=False)},
    reports_path=False,
    reserves_token=True,
    capabilities={"prompt-lookup": {"temperature": "engaged"}},
)


def predicted(said: tuple[int, ...], model: str = "tiny", stop_reason: int | None = None, **fields: object) -> Prediction | None:
    body = {"prompt": "p", "max_tokens": 7, "temperature": 0, **fields}
    start = Start("lookup", "lookup", model, (), parameters={"k": 4})
    reply = Reply("", "x" * len(said), said, "length" if stop_reason is None else "stop", stop_reason, len(PROMPT), len(said))
    return predict(start, Request("r", (), body=body, prompt_ids=PROMPT), Answer("r", 200, reply=reply), DECLARED, known=Known())


def test_a_request_is_predicted_round_by_round() -> None:
    got = predicted(SAID)
    assert got is not None
    assert got.rounds == (Round((3, 4, 5, 6), 3), Round((2, 3, 4, 5), 1))
    assert got.counts == Counts("spec", "prompt-lookup", 2, 8, 4, 1, 7, 0, None, "-")


def test_the_end_tokens_of_a_twin_are_read_from_its_name_and_ignored_where_the_request_does() -> None:
    ended = predicted(SAID[:2], model="tiny+eos=5.8+hf", stop_reason=5)
    assert ended is not None
    assert ended.rounds == (Round((3, 4), 2),)
    going_on = predicted(SAID, model="tiny+eos=5+hf", ignore_eos=True)
    assert going_on is not None
    assert going_on.rounds == (Round((3, 4, 5, 6), 3), Round((2, 3, 4, 5), 1))


def test_a_sampled_reply_that_need_not_be_plains_is_not_predicted() -> None:
    assert predicted(SAID, temperature=1.0) is None
