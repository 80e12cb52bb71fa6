"""What may not be speculated on, and what looks like it and must be: requests by the reason that they give, or do not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from harness.oracle.constraints import FIXED, JSON_OBJECT
from harness.plans.build import Asked, ask
from harness.plans.requests import completion, streamed
from harness.plans.seed import BUDGETS, PROMPTS, SEED, TEMPERATURE
from harness.plans.starts import DEVICE, DUMP, DUMP_LOOKUP, DUMP_PLAIN, LOOKUP, MAIN, PLAIN
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Tier

CHECK = "abstained"
BUDGET = 12
WHOLE_REPLY = 24  # tokens that a stream prescribes

# Fields that ask for nothing: the request must be speculated on as if they were not there.
NEUTRAL: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "no-logprobs": {"logprobs": None},
        "false-logprobs": {"logprobs": False},
        "no-penalty": {"presence_penalty": 0, "frequency_penalty": 0.0},
        "no-repetition-penalty": {"repetition_penalty": 1},
        "no-bias": {"logit_bias": {}},
        "text-format": {"response_format": {"type": "text"}},
        "no-structure": {"structured_outputs": None},
        "idle-sampling": {"top_k": 5, "top_p": 0.5, "seed": 1},
    }
)


def abstained(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    """Requests with each reason that forbids to speculate, and with several of which the first must be named."""
    source = fixture.stream(PROMPTS[0])
    yield from ask(completion(source, max(BUDGETS), CHECK, temperature=TEMPERATURE, seed=SEED), *MAIN)
    for fields in _guarded(source):
        yield from ask(_with(source, fields), *((PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN))
    dumping = (DUMP_PLAIN, DUMP_LOOKUP) if tier is Tier.MUTATION else DUMP
    yield from ask(completion(source, BUDGET, CHECK), PLAIN, *dumping)
    every = {"presence_penalty": 1.5, "repetition_penalty": 1.5, "logit_bias": _ban_of_first(source)}
    yield from ask(_with(source, every), PLAIN, DUMP_PLAIN)
    if tier is Tier.MUTATION:
        return
    for request in _dumped(source):
        yield from ask(request, PLAIN, *DUMP)
    for fields in _several(source):
        yield from ask(_with(source, fields), PLAIN, LOOKUP)
    yield from ask(completion(source, max(BUDGETS), CHECK, temperature=TEMPERATURE, seed=SEED), *DEVICE)
    for request in _sampled(fixture.of_role("hit")[0]):
        yield from ask(request, *MAIN)
    if tier is Tier.DEEP:
        yield from _of_all_streams(fixture)


def neutral(source: Stream, check: str) -> Iterator[Request]:
    """Yield requests with fields that ask for nothing, each alone and all together."""
    for name, fields in NEUTRAL.items():
        yield completion(source, 5, check, label=name, **fields)
    together = {name: value for fields in NEUTRAL.values() for name, value in fields.items()}
    yield completion(source, 5, check, label="all-neutral", **together)


def _guarded(source: Stream) -> Iterator[dict[str, Any]]:
    """Yield one request's fields for each reason but the first; each changes the reply, but for logprobs."""
    yield dict(FIXED.fields)
    yield {"logprobs": 3}
    yield {"presence_penalty": 2.0}
    yield {"repetition_penalty": 1.5}
    yield {"logit_bias": _ban_of_first(source)}


def _several(source: Stream) -> Iterator[dict[str, Any]]:
    """Yield fields that give several reasons, of which the first must be named; and further spellings of one."""
    sampling: dict[str, Any] = {"temperature": TEMPERATURE, "seed": SEED}
    bias = {"logit_bias": _ban_of_first(source)}
    yield {"logprobs": 0}
    yield {"frequency_penalty": 1.5}
    yield {"frequency_penalty": -2.0}
    yield {"repetition_penalty": 0.5}
    yield {"logit_bias": {"93": 0}}  # it holds an id, so it is not empty
    yield dict(JSON_OBJECT.fields)
    yield {**sampling, **FIXED.fields}
    yield {**sampling, "logprobs": 3, **bias}
    yield {"logprobs": 3, **FIXED.fields}
    yield {"logprobs": 3, "presence_penalty": 1.5}
    yield {"presence_penalty": 1.5, **bias}


def _ban_of_first(source: Stream) -> dict[str, float]:
    """Return a bias against the first token of a reply."""
    return {str(source.reply_ids[0]): -100}


def _dumped(source: Stream) -> Iterator[Request]:
    """Yield what arms that leave files of logits are asked beside one greedy request: other reasons, and replies that are cut."""
    yield _with(source, {"logprobs": 3})
    yield _with(source, {"presence_penalty": 2.0})
    yield _with(source, {"frequency_penalty": 1.5})
    yield _with(source, {"repetition_penalty": 1.5})
    yield _with(source, {"logit_bias": _ban_of_first(source)})
    yield completion(source, max(BUDGETS), CHECK, temperature=TEMPERATURE, seed=SEED)
    yield completion(source, WHOLE_REPLY, CHECK, stop=[source.reply[6:8]])
    yield streamed(source, BUDGET, CHECK)


def _sampled(hit: Stream) -> Iterator[Request]:
    """Yield the ways in which a body can ask for sampling."""
    yield completion(hit, BUDGET, CHECK, temperature=1.0, top_k=1, seed=SEED)
    yield streamed(hit, BUDGET, CHECK, temperature=TEMPERATURE, seed=SEED)
    yield _without_temperature(completion(hit, BUDGET, CHECK, label="no-temperature", seed=SEED))


def _of_all_streams(fixture: Fixture) -> Iterator[Asked]:
    for stream in fixture.streams:
        yield from ask(completion(stream, WHOLE_REPLY, CHECK, temperature=TEMPERATURE, seed=SEED + 1), *MAIN)
        yield from ask(completion(stream, WHOLE_REPLY, CHECK), PLAIN, *DUMP)
        for fields in (*_guarded(stream), *_several(stream)):
            yield from ask(_with(stream, fields), *MAIN)
            yield from ask(_with(stream, fields), *DUMP)


def _with(source: Stream, fields: Mapping[str, Any]) -> Request:
    """Return a request with fields; its name holds those whose values tell it apart."""
    return completion(source, BUDGET, CHECK, **fields)


def _without_temperature(request: Request) -> Request:
    """Return the request with no temperature in its body, which stands for 1.0: it samples."""
    body = {name: value for name, value in (request.body or {}).items() if name != "temperature"}
    return msgspec.structs.replace(request, body=body)
