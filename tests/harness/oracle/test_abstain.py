"""Why a request may not be speculated on."""

from __future__ import annotations

from typing import Any

import pytest

from harness.oracle.abstain import abstains
from harness.records.plan import Request

GREEDY: dict[str, Any] = {"temperature": 0}


def reason(dumps_logits: bool = False, **fields: Any) -> str | None:
    return abstains(Request(id="x", checks=(), body={**GREEDY, **fields}), dumps_logits=dumps_logits)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, None),
        ({"temperature": 0.1}, "sampled"),
        ({"temperature": 1, "top_k": 1}, "sampled"),
        ({"top_k": 1, "top_p": 0.5, "seed": 3}, None),
        ({"structured_outputs": {"regex": "a"}}, "grammar"),
        ({"structured_outputs": None}, None),
        ({"response_format": {"type": "json_object"}}, "grammar"),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": None}, None),
        ({"logprobs": 5}, "logprobs"),
        ({"logprobs": 0}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": False}, None),
        ({"logprobs": None}, None),
        ({"presence_penalty": 0.5}, "penalties"),
        ({"frequency_penalty": -0.5}, "penalties"),
        ({"repetition_penalty": 0.9}, "penalties"),
        ({"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}, None),
        ({"presence_penalty": None, "repetition_penalty": None}, None),
        ({"logit_bias": {"5": 0}}, "logit-bias"),
        ({"logit_bias": {}}, None),
        ({"logit_bias": None}, None),
    ],
)
def test_each_field_gives_its_reason_and_its_neutral_values_none(fields: dict[str, Any], want: str | None) -> None:
    assert reason(**fields) == want


def test_an_absent_temperature_samples() -> None:
    assert abstains(Request(id="x", checks=(), body={"prompt": "a"})) == "sampled"


ORDER: list[tuple[str, dict[str, Any]]] = [
    ("sampled", {"temperature": 1}),
    ("grammar", {"structured_outputs": {"regex": "a"}}),
    ("logprobs", {"logprobs": 1}),
    ("dump-logits", {}),  # the server's own
    ("penalties", {"presence_penalty": 1}),
    ("logit-bias", {"logit_bias": {"1": 1}}),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_of_several_reasons_the_first_is_named(first: int) -> None:
    given = ORDER[first:]
    fields = {name: value for _, fields in given for name, value in fields.items()}
    assert reason(dumps_logits="dump-logits" in dict(given), **fields) == ORDER[first][0]
