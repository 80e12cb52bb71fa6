"""What the law on sampled distributions is asked: few prompts many times, each time with a seed of its own, on plain and drafting arms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.starts import draft, lookup, plain
from harness.records.fixture import Fixture
from harness.records.plan import Request, Tier

CHECK = "sampled-distribution"
FIRST_HALF, SECOND_HALF, DRAFTED = (
    "first-half",
    "second-half",
    "drafted",
)  # roles: plain's samples, and those to be held against them
SIZES = {Tier.MUTATION: 64, Tier.GATE: 64, Tier.DEEP: 512}  # replies to each prompt, of a role
PROMPTS = {  # prompts on which drafters find something to draft while the reply still varies
    Tier.MUTATION: ("hit-2",),
    Tier.GATE: ("hit-2",),
    Tier.DEEP: ("hit-2", "constant-1", "burst-1", "miss-1"),
}
BUDGET = 8  # further in, replies are all different, and tell nothing
SAMPLER: dict[str, Any] = {"temperature": 0.8, "top_k": 4}  # flat enough to vary, sharp enough that drafts land
K = 4


def sampled_distribution(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Two samples of the plain arm, one of each arm that drafts; no seed comes twice, so that all are independent."""
    reference = plain("sampled")
    arms = [lookup("sampled", K, reference=reference.id)]
    if tier is not Tier.MUTATION:
        arms.append(draft("sampled", reference=reference.id))
    asked = itertools.product(PROMPTS[tier], (FIRST_HALF, SECOND_HALF, DRAFTED))
    for number, (name, role) in enumerate(asked):
        for request in _samples(fixture, name, role, 1 + number * SIZES[tier], SIZES[tier]):
            yield from ask(request, *(arms if role == DRAFTED else [reference]))


def _samples(fixture: Fixture, name: str, role: str, first_seed: int, size: int) -> Iterator[Request]:
    for seed in range(first_seed, first_seed + size):
        yield completion(fixture.stream(name), BUDGET, CHECK, role=role, seed=seed, **SAMPLER)


SLICES: dict[str, Slice] = {CHECK: sampled_distribution}
