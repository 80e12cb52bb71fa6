"""What the law on constrained replies is asked: each grammar on the main arms, and the same prompt without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.oracle.constraints import (
    ALTERNATING,
    CONSTRAINTS,
    FIXED,
    JSON_OBJECT,
    LONG,
    RESPONSE_SCHEMA,
    STRUCTURED_SCHEMA,
    WORDS,
    Constraint,
)
from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import chat, completion, streamed
from harness.plans.seed import SEED, TEMPERATURE
from harness.plans.starts import LOOKUP, MAIN, PLAIN
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start, Tier

CHECK = "grammar-valid"
ROOM = 40  # tokens: more than a reply of a finite grammar needs, and less than one of a long grammar takes


def grammar_valid(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Replies under grammars that end by themselves, and under such as the budget cuts."""
    starts: tuple[Start, ...] = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    source = fixture.stream("hit-1")
    yield from ask(completion(source, ROOM, CHECK), *starts)
    asked: Sequence[Constraint] = (FIXED, ALTERNATING, LONG, RESPONSE_SCHEMA)
    for constraint in asked if tier is Tier.MUTATION else CONSTRAINTS:
        yield from ask(completion(source, ROOM, CHECK, label=constraint.name, **constraint.fields), *starts)
    if tier is Tier.MUTATION:
        return
    for request in _others(source):
        yield from ask(request, PLAIN, LOOKUP)
    for stream in fixture.streams if tier is Tier.DEEP else ():
        for request in _swept(stream):
            yield from ask(request, *starts)


def _others(source: Stream) -> Iterator[Request]:
    """Yield grammars cut short inside, streamed, sampled, stopped, and in the other dialect, each beside the free request."""
    for budget in (3, 5):
        yield completion(source, budget, CHECK)
        yield completion(source, budget, CHECK, label=ALTERNATING.name, **ALTERNATING.fields)
        yield completion(source, budget, CHECK, label=STRUCTURED_SCHEMA.name, **STRUCTURED_SCHEMA.fields)
    yield streamed(source, ROOM, CHECK)
    yield streamed(source, ROOM, CHECK, label=WORDS.name, **WORDS.fields)
    sampling: dict[str, Any] = {"temperature": TEMPERATURE, "seed": SEED}
    yield completion(source, ROOM, CHECK, **sampling)
    yield completion(source, ROOM, CHECK, label=ALTERNATING.name, **sampling, **ALTERNATING.fields)
    yield completion(source, ROOM, CHECK, stop=["-"])
    yield completion(source, ROOM, CHECK, label=LONG.name, stop=["-"], **LONG.fields)
    yield chat(source, ROOM, CHECK)
    yield chat(source, ROOM, CHECK, label=JSON_OBJECT.name, **JSON_OBJECT.fields)
    yield chat(source, ROOM, CHECK, label=RESPONSE_SCHEMA.name, **RESPONSE_SCHEMA.fields)


def _swept(stream: Stream) -> Iterator[Request]:
    """Yield every grammar at budgets that cut it everywhere, and at one that does not."""
    for budget in (*range(1, 11), ROOM):
        yield completion(stream, budget, CHECK)
        for constraint in CONSTRAINTS:
            yield completion(stream, budget, CHECK, label=constraint.name, **constraint.fields)


SLICES: dict[str, Slice] = {CHECK: grammar_valid}
