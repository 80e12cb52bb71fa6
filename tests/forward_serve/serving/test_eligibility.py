"""Who speculates: each reason alone, their order, and the neutral values."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from forward_serve.serving.eligibility import PlainReason, plain_reason
from forward_serve.serving.request import Grammar, GrammarKind, Penalties, Request, SamplingParams
from tests.forward_serve.serving.toy import request

# In the order in which they are named.
CAUSES: dict[PlainReason, dict[str, Any]] = {
    PlainReason.SAMPLED: {"sampling": SamplingParams(temperature=0.5, top_k=1)},
    PlainReason.GRAMMAR: {"grammar": Grammar(GrammarKind.REGEX, "a", "structured_outputs.regex")},
    PlainReason.LOGPROBS: {"num_logprobs": 0},
    PlainReason.DUMP_LOGITS: {},
    PlainReason.PENALTIES: {"penalties": Penalties(presence=0.1)},
    PlainReason.LOGIT_BIAS: {"logit_bias": ((1, 0.0),)},
}


def reason_for(*causes: PlainReason) -> PlainReason | None:
    asked: Request = request()
    for cause in causes:
        asked = replace(asked, **CAUSES[cause])
    return plain_reason(asked, dumps_logits=PlainReason.DUMP_LOGITS in causes)


def test_a_greedy_request_without_any_of_them_speculates() -> None:
    assert reason_for() is None


def test_every_reason_has_a_cause_here() -> None:
    assert list(CAUSES) == list(PlainReason)


@pytest.mark.parametrize("cause", PlainReason)
def test_each_cause_alone_is_named(cause: PlainReason) -> None:
    assert reason_for(cause) is cause


@pytest.mark.parametrize(("first", "second"), list(combinations(PlainReason, 2)))
def test_of_two_causes_the_first_in_order_is_named(first: PlainReason, second: PlainReason) -> None:
    assert reason_for(second, first) is first


@pytest.mark.parametrize("penalties", [Penalties(presence=-1), Penalties(frequency=0.5), Penalties(repetition=1.1)])
def test_each_penalty_counts(penalties: Penalties) -> None:
    assert plain_reason(request(penalties=penalties), dumps_logits=False) is PlainReason.PENALTIES


def test_an_absent_temperature_is_sampled() -> None:
    assert plain_reason(request(sampling=SamplingParams()), dumps_logits=False) is PlainReason.SAMPLED


@pytest.mark.parametrize("cause", [cause for cause in PlainReason if cause is not PlainReason.DUMP_LOGITS])
def test_a_request_with_a_cause_wants_more_than_the_argmax(cause: PlainReason) -> None:
    assert request().wants_argmax_alone
    assert not replace(request(), **CAUSES[cause]).wants_argmax_alone
