"""The seed plan: sixteen requests that every gate sends to the plain, the lookup and the draft arm.

Four prompts at three budgets, three stops cut out of their replies, and one seeded sampled request. The fifteen greedy ones must
engage on each speculative arm, the sampled one must not.
"""

from __future__ import annotations

from harness.plans.build import Asked, ask
from harness.plans.requests import completion
from harness.plans.starts import MAIN
from harness.records.fixture import Fixture
from harness.records.plan import Request

ROLE = "seed"
PROMPTS = ("main-1", "main-2", "hit-1", "repeat-1")
BUDGETS = (1, 5, 24)
STOPS = {"main-1": slice(6, 8), "hit-1": slice(9, 12), "repeat-1": slice(8, 12)}  # places in the reply's text
TEMPERATURE = 0.8
SEED = 7


def seed_requests(fixture: Fixture) -> tuple[Request, ...]:
    """Return the sixteen requests, the sampled one last."""
    streams = [fixture.stream(name) for name in PROMPTS]
    budgets = [completion(stream, budget, "same-reply", role=ROLE) for budget in reversed(BUDGETS) for stream in streams]
    stops = [
        completion(stream, max(BUDGETS), "same-reply", role=ROLE, stop=[stream.reply[STOPS[stream.name]]])
        for stream in streams
        if stream.name in STOPS
    ]
    sampled = completion(streams[0], max(BUDGETS), "same-sampled-reply", role=ROLE, temperature=TEMPERATURE, seed=SEED)
    return (*budgets, *stops, sampled)


def seed_plan(fixture: Fixture) -> list[Asked]:
    """Return the seed requests for the three main arms."""
    return [asked for request in seed_requests(fixture) for asked in ask(request, *MAIN)]
