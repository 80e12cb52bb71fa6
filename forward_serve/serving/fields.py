"""The fields of the two endpoints: how they are spelled, their defaults and rules. Knows neither engine nor HTTP.

Every field is checked and none is ignored. `null` counts as not given; neutral values (penalty 0, repetition 1, empty
logit_bias, response_format text, logprobs false) count as not set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forward_serve.errors import RequestError
from forward_serve.serving.body import Fields, flag, listing, mapping, number, refuse, shown, text, whole
from forward_serve.serving.chat import Message, read_messages
from forward_serve.serving.grammar_fields import read_grammar
from forward_serve.serving.request import Endpoint, Grammar, Output, Penalties, Request, SamplingParams

DEFAULT_MAX_TOKENS = 16  # of a completion; a chat's is the rest of the context
MAX_STOPS = 8
MAX_LOGPROBS = 20
FRESH_SEED = -1  # the dialect's other way to give no seed

# One choice per request, and nothing but it: fields of the dialect with the one value that asks for nothing.
NEUTRAL: Mapping[str, Any] = {"n": 1, "best_of": 1, "echo": False, "suffix": "", "tools": []}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What validation must know of the served model."""

    alias: str
    vocab_bound: int  # ids below this are tokens
    context_length: int  # max_position_embeddings
    encode: Callable[[str], Sequence[int]]
    encode_chat: Callable[[Sequence[Message]], Sequence[int]]  # raises RequestError where the template refuses
    check_grammar: Callable[[Grammar, bool], None]  # (grammar, ignore_eos); raises RequestError where no reply satisfies it


def parse_request(body: Mapping[str, Any], endpoint: Endpoint, model: ModelFacts) -> Request:
    """Read a request body. Raises RequestError naming field, value and rule."""
    fields = Fields(body)
    _check_model(fields, model)
    _check_single_choice(fields)
    max_tokens = _max_tokens(fields)
    sampling = _sampling(fields)
    stops = fields.take("stop", _stops) or ()
    ignore_eos = fields.get("ignore_eos", flag, default=False)
    output = _output(fields)
    grammar = read_grammar(fields)
    num_logprobs = _num_logprobs(fields, endpoint)
    penalties = _penalties(fields)
    logit_bias = fields.take("logit_bias", _logit_bias(model.vocab_bound)) or ()
    prompt_ids = _prompt(fields, endpoint, model)
    fields.refuse_unknown()
    if grammar is not None:
        model.check_grammar(grammar, ignore_eos)
    room = model.context_length - len(prompt_ids)
    if max_tokens is None:
        max_tokens = room if endpoint is Endpoint.CHAT else DEFAULT_MAX_TOKENS
    return Request(
        endpoint=endpoint,
        prompt_ids=prompt_ids,
        max_tokens=min(max_tokens, room),
        sampling=sampling,
        stops=stops,
        ignore_eos=ignore_eos,
        output=output,
        grammar=grammar,
        num_logprobs=num_logprobs,
        penalties=penalties,
        logit_bias=logit_bias,
    )


def _check_model(fields: Fields, model: ModelFacts) -> None:
    name = fields.get("model", text, model.alias)
    if name != model.alias:
        raise RequestError(f"model: {shown(name)} is not served; ask for {shown(model.alias)} or leave it out", "model", 404)
    fields.take("user", text)
    fields.take("metadata", mapping)


def _check_single_choice(fields: Fields) -> None:
    for name, neutral in NEUTRAL.items():
        value = fields.take(name, _anything)
        if value is not None and (type(value) is not type(neutral) or value != neutral):
            refuse(name, value, "served: a request has one choice, its text alone", "leave it out")


def _anything(_name: str, value: Any) -> Any:
    return value


def _max_tokens(fields: Fields) -> int | None:
    budgets = {name: fields.take(name, whole(1)) for name in ("max_tokens", "max_completion_tokens")}
    given = {budget for budget in budgets.values() if budget is not None}
    if len(given) > 1:
        refuse("max_completion_tokens", budgets["max_completion_tokens"], "the same as max_tokens", "give one of the two")
    return given.pop() if given else None


def _sampling(fields: Fields) -> SamplingParams:
    defaults = SamplingParams()
    top_k = fields.get("top_k", whole(-1), defaults.top_k)
    seed = fields.take("seed", whole(-(2**63), 2**63 - 1))
    return SamplingParams(
        temperature=fields.get("temperature", number(0), defaults.temperature),
        top_k=max(top_k, 0),  # the dialect's -1 and 0 both mean all
        top_p=fields.get("top_p", number(0, 1, above=True), defaults.top_p),
        seed=None if seed == FRESH_SEED else seed,
    )


def _stops(name: str, value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        refuse(name, value, f"a string or a list of up to {MAX_STOPS} strings")
    for stop in stops:
        if text(name, stop) == "":
            refuse(name, value, "free of empty strings, which every text holds")
    return tuple(stops)


def _output(fields: Fields) -> Output:
    stream = fields.get("stream", flag, default=False)
    given = fields.take("stream_options", mapping)
    if given is not None and not stream:
        refuse("stream_options", given, "allowed without stream: true")
    options = Fields(given or {}, "stream_options")
    include_usage = options.get("include_usage", flag, default=False)
    options.refuse_unknown()
    return Output(
        stream=stream,
        include_usage=include_usage,
        return_token_ids=fields.get("return_token_ids", flag, default=False),
        return_spec=fields.get("return_spec", flag, default=False),
    )


def _num_logprobs(fields: Fields, endpoint: Endpoint) -> int | None:
    if endpoint is Endpoint.COMPLETION:
        return fields.take("logprobs", _false_or_number)
    asked = fields.get("logprobs", flag, default=False)
    num_top = fields.get("top_logprobs", whole(0, MAX_LOGPROBS), 0)
    if num_top and not asked:
        refuse("top_logprobs", num_top, "allowed without logprobs: true")
    return num_top if asked else None


def _false_or_number(name: str, value: Any) -> int | None:
    return None if value is False else whole(0, MAX_LOGPROBS)(name, value)


def _penalties(fields: Fields) -> Penalties:
    return Penalties(
        presence=fields.get("presence_penalty", number(-2, 2), 0.0),
        frequency=fields.get("frequency_penalty", number(-2, 2), 0.0),
        repetition=fields.get("repetition_penalty", number(0, above=True), 1.0),
    )


def _logit_bias(vocab_bound: int) -> Callable[[str, Any], tuple[tuple[int, float], ...]]:
    def read(name: str, value: Any) -> tuple[tuple[int, float], ...]:
        biases = []
        for key, bias in mapping(name, value).items():
            if not re.fullmatch("0|[1-9][0-9]{0,9}", key) or int(key) >= vocab_bound:
                refuse(name, value, f"a map of ids below {vocab_bound}: key {shown(key)}")
            biases.append((int(key), number(-100, 100)(f"{name}.{key}", bias)))
        return tuple(biases)

    return read


def _prompt(fields: Fields, endpoint: Endpoint, model: ModelFacts) -> tuple[int, ...]:
    """Read the prompt's ids. Raises RequestError where there is none, or where it leaves the reply no room."""
    if endpoint is Endpoint.CHAT:
        name = "messages"
        messages = fields.take(name, read_messages)
        ids = None if messages is None else tuple(model.encode_chat(messages))
    else:
        name = "prompt"
        ids = fields.take(name, _completion_prompt(model))
    if ids is None:
        raise RequestError(f"{name}: missing; every request has one", name)
    if not ids:
        refuse(name, "", "at least one token", "give a prompt that is not empty")
    if len(ids) >= model.context_length:
        fix = f"the model's {model.context_length} positions hold prompt and reply; shorten it"
        raise RequestError(f"{name}: {len(ids)} tokens leave no room for a reply; {fix}", name)
    return ids


def _completion_prompt(model: ModelFacts) -> Callable[[str, Any], tuple[int, ...]]:
    read_id = whole(0, model.vocab_bound - 1)

    def read(name: str, value: Any) -> tuple[int, ...]:
        if isinstance(value, str):
            return tuple(model.encode(text(name, value)))
        if not isinstance(value, list):
            refuse(name, value, "a string or a list of token ids")
        return tuple(read_id(f"{name}[{index}]", token) for index, token in enumerate(listing(name, value)))

    return read
