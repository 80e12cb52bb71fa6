"""What the controls ask: a second plain process, one request that every arm answers, and the canaries."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion, streamed
from harness.plans.seed import BUDGETS, PROMPTS, SEED, TEMPERATURE
from harness.plans.starts import DEVICE, MAIN, ONE_OF_EACH_KIND, PLAIN, plain
from harness.records.fixture import Fixture
from harness.records.plan import Request, Tier

REPEAT = msgspec.structs.replace(plain("repeat"), reference=PLAIN.id)
ENGAGES, ABSTAINS, SILENT = "canary-engages", "canary-abstains", "canary-silent"


def _repeat(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check = "control-repeat"
    main, other = fixture.of_role("main")[:2]
    yield from ask(completion(main, max(BUDGETS), check), PLAIN, REPEAT)
    yield from ask(_sampled(fixture, check), PLAIN, REPEAT)
    yield from ask(streamed(other, max(BUDGETS), check, stop=other.reply[9:11]), PLAIN, REPEAT)
    if tier is Tier.DEEP:
        for stream in fixture.streams:
            yield from ask(completion(stream, 64, check), PLAIN, REPEAT)


def _tracer(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    """Ask one request: what the control reads is the decoys' trace."""
    del tier
    return ask(completion(fixture.of_role("main")[0], 5, "control-tracer"), PLAIN)


def _counts(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    del tier
    return ask(completion(fixture.of_role("main")[0], 5, "control-counts"), *MAIN)


def _canary(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check, hit = "control-canary", fixture.of_role("hit")[0]
    starts = MAIN if tier is Tier.MUTATION else (*MAIN, *DEVICE, *ONE_OF_EACH_KIND)
    yield from ask(completion(hit, 5, check, role=ENGAGES), *starts)
    yield from ask(completion(fixture.of_role("repeat")[0], 24, check, role=ENGAGES), *starts)
    yield from ask(_sampled(fixture, check, ABSTAINS), *starts)
    yield from ask(completion(hit, 1, check, role=SILENT), *starts)


def _sampled(fixture: Fixture, check: str, role: str = "") -> Request:
    stream = fixture.stream(PROMPTS[0])
    return completion(stream, max(BUDGETS), check, role=role, temperature=TEMPERATURE, seed=SEED)


SLICES: dict[str, Slice] = {
    "control-repeat": _repeat,
    "control-tracer": _tracer,
    "control-counts": _counts,
    "control-canary": _canary,
}
