"""What the laws on one request after another are asked: a probe alone, then the same probe after each kind of disturbance.

The probe alone is the first request that its start ever gets. The pass that fails is chosen so that the probe is over by
then whatever its path (16 prompt tokens and 24 of reply), and that a reply of 400 tokens is not. Arms with a prefix cache are
asked the same; their starts are those of that law.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion, streamed
from harness.plans.starts import CACHED, FAIL_PASS, LOOKUP, MAIN, MODEL, PLAIN
from harness.plans.streams import joined
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start, Tier

ORDER = "order"
PROBE = "hit-1"
LONG_BUDGET = 400
CONTEXT = 1024  # positions of the main container
PROBE_DEADLINE_S = 5.0  # a hundred times what a probe takes: one that waits longer is not going to be answered


def request_order(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """The probe alone, then each disturbance with the probe behind it."""
    check = "request-order"
    arms = ("lookup", "draft", "plain") if tier is Tier.DEEP else ("lookup", "draft")
    kinds = ("failed", "long", "sampled") if tier is Tier.MUTATION else None
    for probe in _probes(fixture, tier):
        name = ORDER if probe.name == PROBE else f"{ORDER}-{probe.name}"
        cached = CACHED if probe.name == PROBE and tier is not Tier.MUTATION else ()
        starts = [*(_start(arm, FAIL_PASS, name) for arm in arms), *cached]
        yield from ask(_probe(probe, check, "alone"), *starts)
        for disturbance in _disturbances(fixture):
            if kinds is None or disturbance.role in kinds:
                yield from ask(disturbance, *starts)
                yield from ask(_probe(probe, check, f"after-{disturbance.role}"), *starts)
        yield from ask(_probe(probe, check, "after-itself"), *cached)
        yield from ask(completion(probe, 24, check), *((PLAIN,) if cached else ()))
    if tier is Tier.DEEP:
        yield from _failing_first(fixture)


def opening(fixture: Fixture, check: str) -> tuple[Request, Request]:
    """Return what every start with a pass that fails is asked first: the probe alone, and the request that fails."""
    return _probe(fixture.stream(PROBE), check, "alone"), _failing(fixture, check)


def cancel_frees(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """A probe, a client that leaves in the middle of a long reply, and the probe again."""
    check = "cancel-frees"
    probe = fixture.stream(PROBE)
    starts = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    for num_chunks in (1, 3, 10) if tier is Tier.DEEP else (3,):
        yield from ask(completion(probe, 24, check), *starts)
        leaving = streamed(fixture.stream("main-1"), LONG_BUDGET, check, role="cancelled", leave_after_chunks=num_chunks)
        yield from ask(leaving, *starts)
        yield from ask(_with_deadline(completion(probe, 24, check, label=f"after-leaving-{num_chunks}", role="probe")), *starts)


def _start(arm: str, fail_pass: int, name: str) -> Start:
    """Return a start that is compared with itself: its paths are the same arm's, alone."""
    parameters: dict[str, str | int | float] = {"fail_pass": fail_pass}
    if arm == "lookup":
        parameters["k"] = LOOKUP.parameters["k"]
    pack = "mixed" if arm == "draft" else None
    return Start(id=f"{name}/{arm}", arm=arm, model=MODEL, requests=(), pack=pack, parameters=parameters)


def _failing_first(fixture: Fixture) -> Iterator[Asked]:
    """Starts whose very first request fails: in its prefill, and at its first decoding passes."""
    check = "request-order"
    for fail_pass in (1, 2, 3):
        starts = [_start(arm, fail_pass, f"fail-{fail_pass}") for arm in ("plain", "lookup", "draft")]
        yield from ask(_failing(fixture, check), *starts)
        for probe in _probes(fixture, Tier.DEEP):
            yield from ask(_probe(probe, check, "after-failed"), *starts)


def _probes(fixture: Fixture, tier: Tier) -> tuple[Stream, ...]:
    """Return a probe that copies its prompt; at leisure also one that nothing may be proposed for, and a varied one."""
    names = (PROBE, "miss-1", "main-2") if tier is Tier.DEEP else (PROBE,)
    return tuple(map(fixture.stream, names))


def _probe(stream: Stream, check: str, label: str) -> Request:
    role = "alone" if label == "alone" else "probe"
    return _with_deadline(completion(stream, 24, check, role=role, label=label))


def _with_deadline(request: Request) -> Request:
    return msgspec.structs.replace(request, deadline_s=PROBE_DEADLINE_S)


def _failing(fixture: Fixture, check: str) -> Request:
    failing = completion(fixture.stream("main-1"), LONG_BUDGET, check, role="failed", label="failed")
    return msgspec.structs.replace(failing, expect=500)


def _disturbances(fixture: Fixture) -> Iterator[Request]:
    """Yield one request of each kind, told apart by role; the one that fails comes first, as its pass is counted."""
    check = "request-order"
    first, second = fixture.stream("main-1"), fixture.stream("main-2")
    yield _failing(fixture, check)
    yield completion(joined("all", fixture.streams), 64, check, role="long")
    yield completion(second, 1, check, role="short")
    yield completion(first, 24, check, role="stopped", stop=[first.reply[6:8]])
    yield completion(first, 24, check, role="sampled", temperature=0.8, seed=7)
    refused = completion(first, 0, check, role="refused")
    yield msgspec.structs.replace(refused, expect=400, refusal="max_tokens")
    too_long = joined("over-long", (first,) * (CONTEXT // (len(first.prompt_ids) + len(first.reply_ids)) + 1))
    over_long = completion(too_long, 24, check, role="over-long")
    yield msgspec.structs.replace(over_long, expect=400, refusal="prompt")
    yield streamed(second, LONG_BUDGET, check, role="cancelled", leave_after_chunks=3)


SLICES: dict[str, Slice] = {
    "request-order": request_order,
    "cancel-frees": cancel_frees,
}
