"""What the checks of path and counts ask: prompts by how lookup takes them, budgets around its rounds, sampled requests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.plans.abstain import abstained, neutral
from harness.plans.build import Asked, Slice, ask
from harness.plans.devices import device_requests, second_generation
from harness.plans.requests import completion
from harness.plans.seed import BUDGETS, PROMPTS, SEED, TEMPERATURE, seed_requests
from harness.plans.starts import (
    ALWAYS,
    DEVICE,
    DRAFT,
    FIVE,
    FLIP_2,
    LOOKUP,
    MAIN,
    MIXED_2,
    NEVER,
    NPU_DRAFT,
    NPU_PLAIN,
    ONE_OF_EACH_KIND,
    OTHER_KINDS,
    PLAIN,
    WINDOW_1,
    draft,
)
from harness.records.fixture import Fixture
from harness.records.plan import Request, Start, Tier

WHOLE_REPLY = 24  # tokens that a stream prescribes
TURNS = ("hit", "repeat", "burst")  # roles whose replies end inside a round at some budget and between rounds at others
LOOKUP_ROLES = ("hit", "miss", "decoy", "repeat", "constant", "burst")
GATE_BUDGETS = (2, 3, 5, 6, 11)
DRAFTED = ("main-1", "hit-1")  # streams that packs are asked for in each tier
# Streams on which the faults of a kind of pack show: the certificate names the first one for each.
SHOWN_ON = ((MIXED_2, ("main-1", "burst-1", "constant-1")), (FLIP_2, ("main-1",)), (WINDOW_1, ("main-1",)))
DEEP_BUDGETS = (*range(1, WHOLE_REPLY), 40, 64)


def _engaged_exactly(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check = "engaged-exactly"
    yield from ask(completion(fixture.of_role("hit")[0], 5, check), *MAIN)
    yield from ask(_sampled(fixture, check), *MAIN)
    if tier is not Tier.MUTATION:
        yield from _on(_seed(fixture, check), *MAIN, *DEVICE)
        yield from _on(neutral(fixture.of_role("hit")[0], check), *MAIN)
        yield from ask(completion(fixture.of_role("hit")[0], 5, check), *OTHER_KINDS)
        yield from ask(_sampled(fixture, check), *OTHER_KINDS)
    if tier is Tier.DEEP:
        yield from _on(_whole_replies(fixture, check), *MAIN, *OTHER_KINDS)


def _drafts_made(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check = "drafts-made"
    for stream in fixture.of_role("hit"):
        yield from ask(completion(stream, WHOLE_REPLY, check, role="hit"), PLAIN, LOOKUP)
    first, second = fixture.of_role("main")[:2]
    yield from ask(completion(first, 5, check), PLAIN, DRAFT)
    yield from ask(completion(second, 2, check), PLAIN, DRAFT)  # the rows that the first request left may be in its way
    if tier is not Tier.MUTATION:
        yield from _on(_seed(fixture, check), PLAIN, DRAFT, NPU_PLAIN, NPU_DRAFT)
        yield from second_generation(fixture, check)
        yield from ask(completion(first, 5, check), *OTHER_KINDS)
        yield from ask(completion(second, 2, check), *OTHER_KINDS)
        yield from _on(_prescribed(fixture.companion("five"), check), *FIVE)
    if tier is Tier.DEEP:
        yield from _on(_whole_replies(fixture, check), PLAIN, DRAFT, *OTHER_KINDS)


def _exact_counts(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    return _exact(fixture, tier, "exact-counts")


def _exact_drafts(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    """As exact-counts; of packs of other kinds too, on whose arms a fault of their kind changes drafts and hardly ever counts."""
    check = "exact-drafts"
    yield from _exact(fixture, tier, check)
    for start, names in SHOWN_ON:
        yield from (Asked(start, completion(fixture.stream(name), WHOLE_REPLY, check)) for name in names)


def _exact(fixture: Fixture, tier: Tier, check: str) -> Iterable[Asked]:
    yield from _on(_walked(fixture, tier, check), PLAIN, LOOKUP)
    yield from _on(_drafted(fixture, tier, check), PLAIN, DRAFT)
    if tier is not Tier.MUTATION:
        yield from _on(_drafted(fixture, Tier.MUTATION, check), draft("k-3", draft_k=3))  # it uses a part of each block
        yield from _on(device_requests(fixture, tier, check), *DEVICE)
        yield from second_generation(fixture, check)
        yield from _on(_drafted(fixture, Tier.MUTATION, check), *OTHER_KINDS, draft("mixed2-k-3", "mixed2", draft_k=3))
        yield from _on(_prescribed(fixture.companion("five"), check), *FIVE)
    if tier is Tier.DEEP:
        others = [draft(pack, pack) for pack in sorted(set(fixture.packs) - {DRAFT.pack})]
        yield from _on(_drafted(fixture, tier, check), *others)


def _drafted(fixture: Fixture, tier: Tier, check: str) -> Iterable[Request]:
    """Yield requests on prescribed replies, where each draft of a pack is certified."""
    yield from (completion(fixture.stream(name), WHOLE_REPLY, check) for name in DRAFTED)
    yield completion(fixture.stream(DRAFTED[0]), 1, check)
    yield completion(fixture.stream(DRAFTED[0]), 5, check)  # leaves its second round room for less than a block
    if tier is Tier.MUTATION:
        return
    yield from _whole_replies(fixture, check)
    yield from _seed(fixture, check)
    for stream in fixture.streams if tier is Tier.DEEP else ():
        yield from (completion(stream, budget, check) for budget in range(1, WHOLE_REPLY))


def _accounting(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check = "accounting"
    for stream in (fixture.of_role("main")[0], fixture.of_role("hit")[0]):
        yield from ask(completion(stream, 1, check), *MAIN)
        yield from ask(completion(stream, WHOLE_REPLY, check), *MAIN)
    yield from ask(_sampled(fixture, check), *MAIN)
    if tier is not Tier.MUTATION:
        yield from _on(_seed(fixture, check), *MAIN, *DEVICE)
        yield from _on(neutral(fixture.of_role("hit")[0], check), *MAIN)
        yield from _on(_drafted(fixture, Tier.MUTATION, check), *OTHER_KINDS)
        yield from ask(_sampled(fixture, check), *ONE_OF_EACH_KIND)
    if tier is Tier.DEEP:
        yield from _on(_walked(fixture, tier, check), *MAIN)


def _hit_miss_decoy(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    for role in ("hit", "miss", "decoy"):
        for stream in fixture.of_role(role):
            yield from ask(completion(stream, WHOLE_REPLY, "hit-miss-decoy", role=role), PLAIN, LOOKUP)
            if tier is Tier.DEEP:
                yield from ask(completion(stream, 12, "hit-miss-decoy", role=role), PLAIN, LOOKUP)
    if tier is Tier.MUTATION:
        return
    for role, pack in (("hit", ALWAYS), ("decoy", NEVER)):
        start = draft(pack, pack=pack)
        for stream in fixture.streams if tier is Tier.DEEP else fixture.of_role("main")[:2]:
            request = completion(stream, WHOLE_REPLY, "hit-miss-decoy")
            yield Asked(PLAIN, request)
            yield Asked(start, msgspec.structs.replace(request, role=role))


def _walked(fixture: Fixture, tier: Tier, check: str) -> Iterable[Request]:
    """Yield requests whose whole path under lookup an oracle knows from the reply."""
    yield completion(fixture.of_role("main")[0], 1, check)
    for role in LOOKUP_ROLES:
        for stream in fixture.of_role(role):
            yield completion(stream, WHOLE_REPLY, check)
    if tier is Tier.MUTATION:
        return
    yield from _whole_replies(fixture, check)
    yield from _seed(fixture, check)
    yield _sampled(fixture, check)
    for role in TURNS:
        for stream in fixture.of_role(role):
            for budget in GATE_BUDGETS:
                yield completion(stream, budget, check)
    if tier is Tier.DEEP:
        for stream in fixture.streams:
            for budget in DEEP_BUDGETS:
                yield completion(stream, budget, check)


def _whole_replies(fixture: Fixture, check: str) -> Iterable[Request]:
    return (completion(stream, WHOLE_REPLY, check) for stream in fixture.streams)


def _prescribed(companion: Fixture, check: str) -> Iterable[Request]:
    """Yield every reply of a companion, as long as it is prescribed."""
    return (completion(stream, len(stream.reply_ids), check) for stream in companion.streams)


def _seed(fixture: Fixture, check: str) -> Iterable[Request]:
    """Yield the seed plan's requests, read by this check too."""
    return (msgspec.structs.replace(request, checks=(check,)) for request in seed_requests(fixture))


def _sampled(fixture: Fixture, check: str) -> Request:
    return completion(fixture.stream(PROMPTS[0]), max(BUDGETS), check, temperature=TEMPERATURE, seed=SEED)


def _on(requests: Iterable[Request], *starts: Start) -> Iterable[Asked]:
    return (asked for request in requests for asked in ask(request, *starts))


SLICES: dict[str, Slice] = {
    "engaged-exactly": _engaged_exactly,
    "abstained": abstained,
    "drafts-made": _drafts_made,
    "exact-counts": _exact_counts,
    "exact-drafts": _exact_drafts,
    "accounting": _accounting,
    "hit-miss-decoy": _hit_miss_decoy,
}
