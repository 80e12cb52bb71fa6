"""Paths under drafters that see tokens alone, and what is counted of a block that a stop or an end token cuts."""

from __future__ import annotations

import pytest

from harness.oracle.loop import Rules, Said
from harness.oracle.predict import Known, Prediction, predict
from harness.oracle.streamwise import drafter_of, is_streamwise, most_drafts, walk_stream
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Reply

PROMPT = (9, 8, 7, 1, 2, 3, 4, 5, 6, 1)
SAID = (2, 3, 4, 5, 6, 0)  # copies the prompt from the second token on


def walked(said: Said, k: int = 4, beyond: tuple[int, ...] = ()) -> list[object]:
    path = walk_stream(PROMPT, said, Rules(k, 512, reserve=1), drafter_of("ngram-simple-2", k, {}), beyond)
    assert path is not None
    return [[(step.index, step.drafts, step.accepted) for step in path.trace.steps], path.trace.last, path.num_accepted]


def test_a_draft_leaves_one_token_of_the_budget_to_the_base() -> None:
    steps, last, accepted = walked(Said(SAID[:4], budget=4))
    assert steps == [(0, (3, 4), 2)]
    assert (last, accepted) == (1, 2)


def test_a_round_delivers_its_accepted_drafts_and_one_token_of_the_base_s_own() -> None:
    steps, last, accepted = walked(Said(SAID, budget=6))
    assert steps == [(0, (3, 4, 5, 6), 4)]
    assert (last, accepted) == (1, 4)


def test_matches_behind_a_stop_count_where_what_comes_behind_it_is_known() -> None:
    cut = Said(SAID[:3], budget=6, stopped=True)
    assert walked(cut, beyond=SAID[3:])[2] == 4
    assert walked(cut, beyond=(5, 5))[2] == 3
    assert walked(cut)[2] is None
    assert walked(cut, k=2)[2] == 2  # the block ends with the reply


def test_an_end_token_among_the_drafts_counts_and_has_a_place() -> None:
    path = walk_stream(PROMPT, Said(SAID[:3], 6, end_token=5), Rules(3, 512, reserve=1), drafter_of("ngram-simple-2", 3, {}))
    assert path is not None
    assert (path.num_accepted, path.end_place, path.trace.num_accepted) == (3, 3, 2)


def test_an_end_token_that_the_base_chose_has_place_0() -> None:
    path = walk_stream(PROMPT, Said(SAID[:1], 6, end_token=7), Rules(4, 512, reserve=1), drafter_of("ngram-simple-2", 4, {}))
    assert path is not None
    assert (path.num_accepted, path.end_place, path.trace.last) == (0, 0, 0)


def test_a_draft_model_drafts_what_it_says_by_itself() -> None:
    spoken = {(1, 5): (6, 7, 9), (1, 5, 6, 7, 8): (9, 9, 9)}
    path = walk_stream((1,), Said((5, 6, 7, 8, 9, 1), 6), Rules(3, 512, reserve=1), drafter_of("draft-model-3", 3, spoken))
    assert path is not None
    assert [(step.drafts, step.accepted) for step in path.trace.steps] == [((6, 7, 9), 2), ((9,), 1)]


def test_what_the_draft_model_was_not_asked_for_is_not_known() -> None:
    assert walk_stream((1,), Said((5, 6, 7), 3), Rules(3, 512), drafter_of("draft-model-3", 3, {})) is None
    assert walk_stream((1,), Said((5, 6, 7), 3), Rules(3, 512), drafter_of("draft-model-3", 3, {(1, 5): (6,)})) is None


def test_the_names_of_the_oracles() -> None:
    names = ("ngram-simple-2", "draft-model-4", "prompt-lookup-2", "ngram-simple", "lookup-321", "ngram-mod-2")
    assert [is_streamwise(name) for name in names] == [True, True, True, False, False, False]
    assert (most_drafts("draft-model-4", None), most_drafts("draft-model-4", 3), most_drafts("ngram-simple-2", 8)) == (4, 3, 8)
    with pytest.raises(ValueError, match="names no k"):
        most_drafts("ngram-simple-2", None)


DECLARED = Declared(
    arms={
        "plain": ArmFacts(),
        "simple": ArmFacts("ngram-simple", "ngram-simple-2"),
        "model": ArmFacts("draft-simple", "draft-model-4"),
        "silent": ArmFacts("cache", expect="not-engaged"),
    },
    width=512,
    reports_path=False,
    reports_rounds=False,
    reserves_token=True,
    first_token_outside=True,
    trims_at_stop=False,
    capabilities={"ngram-simple": {"temperature": "engaged", "logprobs": "abstains"}},
)


def predicted(arm: str, known: Known | None = None, budget: int = 6, **fields: object) -> Prediction | None:
    body = {"prompt": "p", "max_tokens": budget, "temperature": 0, **fields}
    parameters: dict[str, str | int | float] = {"k": 4} if arm == "simple" else {}
    start = Start(arm, arm, "tiny", (), parameters=parameters)
    reply = Reply("", "x" * len(SAID), SAID, "length", None, len(PROMPT), len(SAID))
    return predict(start, Request("r", (), body=body, prompt_ids=PROMPT), Answer("r", 200, reply=reply), DECLARED, known=known)


def test_a_path_is_speculative_where_something_must_have_been_drafted() -> None:
    got = predicted("simple")
    assert got is not None
    assert got.counts == Counts("spec", "ngram-simple", 1, 4, 4, 0, 6, 0, None, "-")
    assert got.path == "spec"


def test_a_field_that_a_drafter_is_declared_to_abstain_on_is_decoded_plainly() -> None:
    got = predicted("simple", logprobs=1)
    assert got is not None
    assert (got.path, got.counts and got.counts.drafted) == ("plain", 0)


def test_an_arm_that_may_not_engage_is_predicted_to_draft_nothing() -> None:
    got = predicted("silent")
    assert got is not None
    assert (got.path, got.counts and (got.counts.drafted, got.counts.plain)) == ("plain", (0, 5))


def test_a_draft_model_that_nobody_asked_and_a_reply_that_the_context_ended_are_not_predicted() -> None:
    assert predicted("model") is None
    assert predicted("model", Known(spoken={(*PROMPT, 2): (3, 4, 5, 6)})) is not None
    assert predicted("simple", budget=7) is None
