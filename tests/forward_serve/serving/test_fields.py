"""Every field of both endpoints: defaults, what is accepted, and every refusal by name."""

from __future__ import annotations

from typing import Any

import pytest

from forward_serve.errors import RequestError
from forward_serve.serving.body import read_object
from forward_serve.serving.fields import parse_request
from forward_serve.serving.request import Endpoint, Grammar, GrammarKind, Output, Penalties, Request, SamplingParams
from tests.forward_serve.serving.toy import CONTEXT, VOCAB, facts

REGEX = "structured_outputs.regex"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def completion(**fields: Any) -> Request:
    return parse_request({"prompt": "abc", **fields}, Endpoint.COMPLETION, facts())


def chat(**fields: Any) -> Request:
    return parse_request({**CHAT, **fields}, Endpoint.CHAT, facts())


def test_a_bare_completion_has_the_dialects_defaults() -> None:
    assert completion() == Request(Endpoint.COMPLETION, (97, 98, 99), 16, SamplingParams(1.0, 0, 1.0, None))


def test_a_bare_chat_may_fill_the_rest_of_the_context() -> None:
    num_prompt = len("user:hi\n")
    assert chat() == Request(Endpoint.CHAT, tuple(b"user:hi\n"), CONTEXT - num_prompt)


def test_a_prompt_of_ids_is_taken_as_it_is() -> None:
    assert completion(prompt=[0, 5, VOCAB - 1]).prompt_ids == (0, 5, VOCAB - 1)


def test_the_budget_is_what_the_context_leaves() -> None:
    assert completion(prompt=[1] * (CONTEXT - 3), max_tokens=99).max_tokens == 3
    assert completion(prompt=[1] * (CONTEXT - 1)).max_tokens == 1


def test_every_field_that_is_served_arrives() -> None:
    request = completion(
        model="toy",
        user="me",
        metadata={"trace": "1"},
        max_tokens=5,
        max_completion_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        seed=-3,
        stop=["a", "bc"],
        ignore_eos=True,
        stream=True,
        stream_options={"include_usage": True},
        return_token_ids=True,
        return_spec=True,
        structured_outputs={"regex": "a+"},
        logprobs=3,
        presence_penalty=1,
        frequency_penalty=-0.5,
        repetition_penalty=1.25,
        logit_bias={"97": -100, "5": 0.5},
    )
    assert request == Request(
        Endpoint.COMPLETION,
        (97, 98, 99),
        5,
        SamplingParams(0.5, 7, 0.9, -3),
        ("a", "bc"),
        True,
        Output(True, True, True, True),
        Grammar(GrammarKind.REGEX, "a+", "structured_outputs.regex"),
        3,
        Penalties(1.0, -0.5, 1.25),
        ((97, -100.0), (5, 0.5)),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1, "best_of": 1, "echo": False, "suffix": "", "tools": []},
        {"logprobs": False, "logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1},
        {"response_format": {"type": "text"}},
        {"stop": [], "top_k": -1, "seed": -1},
        dict.fromkeys(["n", "logprobs", "logit_bias", "response_format", "structured_outputs", "stop", "seed", "suffix"]),
        dict.fromkeys(["max_tokens", "temperature", "top_p", "top_k", "stream", "stream_options", "ignore_eos", "model"]),
    ],
    ids=str,
)
def test_neutral_values_count_as_not_set(fields: dict[str, Any]) -> None:
    assert completion(**fields) == completion()


def test_one_stop_may_stand_without_a_list() -> None:
    assert completion(stop="ab").stops == ("ab",)


def named_schema(**fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": fields}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


REFUSED: list[tuple[str, Any]] = [
    ("prompt", None),
    ("prompt", ""),
    ("prompt", []),
    ("prompt", 5),
    ("prompt", ["a", "b"]),
    ("prompt", [[1], [2]]),
    ("prompt", [VOCAB]),
    ("prompt", [-1]),
    ("prompt", [True]),
    ("prompt", [1.0]),
    ("prompt", "half a pair \ud800"),
    ("prompt", "a" * CONTEXT),
    ("prompt", [1] * (CONTEXT + 5)),
    ("model", "other"),
    ("model", 3),
    ("max_tokens", 0),
    ("max_tokens", -1),
    ("max_tokens", 2.0),
    ("max_tokens", "5"),
    ("max_tokens", True),
    ("max_completion_tokens", 0),
    ("temperature", -0.1),
    ("temperature", "0"),
    ("temperature", True),
    ("temperature", 10**400),
    ("top_p", 0),
    ("top_p", 1.1),
    ("top_p", []),
    ("top_k", -2),
    ("top_k", 1.5),
    ("seed", 0.5),
    ("seed", "1"),
    ("seed", 2**63),
    ("stop", ""),
    ("stop", ["a", ""]),
    ("stop", ["a"] * 9),
    ("stop", [1]),
    ("stop", 1),
    ("stop", {"a": 1}),
    ("stop", "\udfff"),
    ("stream", 1),
    ("stream", "true"),
    ("stream_options", {"include_usage": True}),  # without stream
    ("ignore_eos", 0),
    ("return_token_ids", "yes"),
    ("return_spec", 1),
    ("user", 5),
    ("metadata", "text"),
    ("n", 2),
    ("n", 0),
    ("n", True),
    ("best_of", 2),
    ("echo", True),
    ("suffix", "end"),
    ("tools", [{"type": "function"}]),
    ("tool_choice", "auto"),
    ("messages", []),
    ("min_tokens", 1),
    ("guided_regex", "a+"),
    ("Temperature", 0),
    ("a.b", 1),
    ("logprobs", True),
    ("logprobs", -1),
    ("logprobs", 21),
    ("logprobs", "1"),
    ("top_logprobs", 1),
    ("logprobs", 1.0),
    ("logprobs", []),
    ("presence_penalty", 2.1),
    ("presence_penalty", True),
    ("frequency_penalty", "0"),
    ("frequency_penalty", -2.1),
    ("repetition_penalty", 0),
    ("repetition_penalty", -1),
    ("repetition_penalty", "1"),
    ("repetition_penalty", 10**400),
    ("logit_bias", []),
    ("logit_bias", "5"),
    ("logit_bias", {str(VOCAB): 1}),
    ("logit_bias", {"-1": 1}),
    ("logit_bias", {"x": 1}),
    ("logit_bias", {"1": "2"}),
    ("logit_bias", {"1": 101}),
    ("logit_bias", {"1": -101}),
    ("logit_bias", {"1": None}),
    ("logit_bias", {"1": True}),
    ("logit_bias", {"01": 1}),  # 1 by another spelling, which could be given beside it
    ("logit_bias", {"\u0661": 1}),
    ("logit_bias", {"": 1}),
    ("logit_bias", {"9" * 5000: 1}),
    ("response_format", "json"),
    ("response_format", {}),
    ("response_format", {"type": "xml"}),
    ("response_format", {"type": 1}),
    ("response_format", {"type": "text", "json_schema": {}}),
    ("response_format", {"type": "json_object", "json_schema": {}}),
    ("response_format", {"type": "json_schema"}),
    ("response_format", {"type": "json_schema", "json_schema": None}),
    ("response_format", {"type": "json_schema", "json_schema": "{}"}),
    ("response_format", {"type": "json_schema", "schema": {}}),
    ("response_format", named_schema()),
    ("response_format", named_schema(schema=[])),
    ("response_format", named_schema(schema={}, name=1)),
    ("response_format", named_schema(schema={}, description=1)),
    ("response_format", named_schema(schema={}, strict="yes")),
    ("response_format", named_schema(schema={}, frob=1)),
    ("response_format", named_schema(schema={"type": "frob"})),
    ("response_format", named_schema(schema={"enum": []})),
    ("structured_outputs", "a+"),
    ("structured_outputs", {}),
    ("structured_outputs", {"regex": None}),
    ("structured_outputs", {"regex": "a", "json": {}}),
    ("structured_outputs", {"choice": ["a"]}),
    ("structured_outputs", {"grammar": "start: /a/"}),
    ("structured_outputs", {"regex": "a", "disable_any_whitespace": True}),
    ("structured_outputs", {"regex": 1}),
    ("structured_outputs", {"regex": "\ud800"}),
    ("structured_outputs", {"regex": "("}),
    ("structured_outputs", {"regex": "(" * 500 + ")" * 500}),
    ("structured_outputs", {"regex": "a\\"}),
    ("structured_outputs", {"regex": "(a)\\1"}),
    ("structured_outputs", {"regex": "a(?=b)"}),
    ("structured_outputs", {"regex": r"[^\s\S]"}),  # no text at all
    ("structured_outputs", {"regex": "\u00e9"}),  # no tokens for its bytes
    ("structured_outputs", {"json": 1}),
    ("structured_outputs", {"json": True}),
    ("structured_outputs", {"json": "{"}),
    ("structured_outputs", {"json": "[]"}),
    ("structured_outputs", {"json": '{"type": "object", "type": "array"}'}),
    ("structured_outputs", {"json": {"type": "integer", "minimum": 2, "maximum": 1}}),
    ("structured_outputs", {"json": {"type": "array", "uniqueItems": True}}),  # a rule that would not be held
    ("structured_outputs", {"json": {"type": "string", "format": "frob"}}),
    ("structured_outputs", {"json": {"$ref": "http://127.0.0.1/schema.json"}}),
    ("structured_outputs", {"json": {"$ref": "#/$defs/none"}}),
    ("structured_outputs", {"json": {"x-guidance": {"lenient": True}}}),
    ("structured_outputs", {"json": {"const": "\ud800"}}),
    ("structured_outputs", {"json": nested(200)}),
    ("structured_outputs", {"json": {"const": 10**400}}),
]


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_bad_completion_field_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{field: value})
    assert caught.value.param == field
    assert caught.value.status == (404 if (field, value) == ("model", "other") else 400)
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("messages", None, "messages: missing"),
        ("messages", [], "at least one message"),
        ("messages", "hi", "not a list"),
        ("messages", ["hi"], r"messages\[0\]: .* not an object"),
        ("messages", [{"role": "user"}], r"messages\[0\]\.content: missing"),
        ("messages", [{"role": "tool", "content": "x"}], r"messages\[0\]\.role: .*tool"),
        ("messages", [{"role": None, "content": "x"}], r"messages\[0\]\.role"),
        ("messages", [{"role": "user", "content": 5}], r"messages\[0\]\.content"),
        ("messages", [{"role": "user", "content": "\ud800"}], "surrogate"),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "text alone"),
        ("messages", [{"role": "user", "content": "x", "name": "n"}], r"messages\[0\]\.name: unknown field"),
        ("messages", [{"role": "user", "content": "x" * CONTEXT}], "leave no room"),
        ("prompt", "abc", "unknown field"),
        ("logprobs", 1, "true or false"),
        ("top_logprobs", 2, "without logprobs"),
        ("top_logprobs", 21, "from 0 to 20"),
        ("top_logprobs", -1, "from 0 to 20"),
        ("top_logprobs", True, "from 0 to 20"),
        ("logprobs", "true", "true or false"),
        ("response_format", {"type": "json_schema"}, r"response_format\.json_schema: missing"),
        ("presence_penalty", 3, "at most 2"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_chat_field_is_refused_by_name(field: str, value: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        chat(**{field: value})
    assert (caught.value.param, caught.value.status) == (field, 400)


def test_stream_options_refuse_what_they_do_not_know() -> None:
    with pytest.raises(RequestError, match=r"stream_options\.continuous_usage_stats: unknown field"):
        completion(stream=True, stream_options={"continuous_usage_stats": True})


def test_two_budgets_that_differ_are_refused() -> None:
    with pytest.raises(RequestError, match="max_completion_tokens: 4 is not the same as max_tokens"):
        completion(max_tokens=3, max_completion_tokens=4)


def test_two_grammars_are_refused() -> None:
    with pytest.raises(RequestError, match=r"structured_outputs: .* beside response_format"):
        completion(response_format={"type": "json_object"}, structured_outputs={"regex": "a"})


def test_text_parts_of_a_message_are_joined_by_newlines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert bytes(chat(messages=[{"role": "user", "content": parts}]).prompt_ids) == b"user:a\nb\n"


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"logprobs": 0}, {"num_logprobs": 0}),
        ({"logprobs": 20}, {"num_logprobs": 20}),
        ({"presence_penalty": 0.5}, {"penalties": Penalties(presence=0.5)}),
        ({"frequency_penalty": -2}, {"penalties": Penalties(frequency=-2.0)}),
        ({"repetition_penalty": 1.5}, {"penalties": Penalties(repetition=1.5)}),
        ({"logit_bias": {"7": 0}}, {"logit_bias": ((7, 0.0),)}),
    ],
    ids=str,
)
def test_each_of_the_fields_that_change_or_show_logits_arrives(fields: dict[str, Any], read: dict[str, Any]) -> None:
    request = completion(**fields)
    assert {name: getattr(request, name) for name in read} == read


ANY_OBJECT = Grammar(GrammarKind.JSON_SCHEMA, '{"type": "object"}', "response_format")
SCHEMA = {"type": "array", "items": {"enum": [1]}}
SCHEMA_TEXT = '{"type": "array", "items": {"enum": [1]}}'
LABELS = {"name": "n", "description": "d", "strict": False}


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"response_format": {"type": "json_object"}}, ANY_OBJECT),
        (
            {"response_format": named_schema(schema=SCHEMA, **LABELS)},
            Grammar(GrammarKind.JSON_SCHEMA, SCHEMA_TEXT, "response_format.json_schema.schema"),
        ),
        ({"structured_outputs": {"json": SCHEMA}}, Grammar(GrammarKind.JSON_SCHEMA, SCHEMA_TEXT, "structured_outputs.json")),
        ({"structured_outputs": {"json": SCHEMA_TEXT}}, Grammar(GrammarKind.JSON_SCHEMA, SCHEMA_TEXT, "structured_outputs.json")),
        ({"structured_outputs": {"regex": "", "json": None}}, Grammar(GrammarKind.REGEX, "", "structured_outputs.regex")),
        ({"response_format": {"type": "json_object"}, "structured_outputs": None}, ANY_OBJECT),
        ({"response_format": {"type": "text"}, "structured_outputs": {"regex": "a"}}, Grammar(GrammarKind.REGEX, "a", REGEX)),
    ],
    ids=str,
)
def test_a_grammar_arrives_by_its_source_whatever_it_is_called(fields: dict[str, Any], grammar: Grammar) -> None:
    assert completion(**fields).grammar == chat(**fields).grammar == grammar


def test_an_expression_for_the_empty_reply_is_refused_where_end_tokens_are_ignored() -> None:
    with pytest.raises(RequestError, match=r"structured_outputs\.regex: .*no token of this model goes on with it"):
        completion(structured_outputs={"regex": ""}, ignore_eos=True)


def test_a_field_that_is_wrong_is_named_before_a_grammar_is_compiled() -> None:
    with pytest.raises(RequestError, match="frob: unknown field"):
        completion(structured_outputs={"regex": "("}, frob=1)


def test_a_schema_as_deep_as_a_body_can_be_is_refused_or_read_and_never_breaks_the_server() -> None:
    for depth in range(300, 1100, 7):
        raw = '{"prompt": "a", "structured_outputs": {"json": ' + '{"a":' * depth + "1" + "}" * (depth + 2)
        try:
            parse_request(read_object(raw.encode()), Endpoint.COMPLETION, facts())
        except RequestError as error:
            assert "\n" not in str(error)


def test_a_chat_asks_for_logprobs_by_a_flag_and_for_alternatives_by_a_number() -> None:
    assert chat(logprobs=True).num_logprobs == 0
    assert chat(logprobs=True, top_logprobs=3).num_logprobs == 3
    assert chat(logprobs=False, top_logprobs=0).num_logprobs is None
