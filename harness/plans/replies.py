"""What the laws on whole replies are asked: the same reply on each arm, whatever drafts, and for every budget its prefix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from harness.plans.abstain import neutral
from harness.plans.build import Asked, Slice, ask
from harness.plans.cuts import end_starts
from harness.plans.devices import device_requests, second_generation
from harness.plans.fallback import DEEP_RULES, GATE_RULES, fallback_start, pack_fallback_starts
from harness.plans.requests import completion
from harness.plans.seed import BUDGETS, SEED, TEMPERATURE, seed_plan
from harness.plans.starts import DEVICE, DRAFT, FIVE, LOOKUP, MAIN, OTHER_KINDS, PLAIN, TEXT, TIE, draft, lookup
from harness.plans.streams import end_token, joined, widest_rounds
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Start, Tier

LOOKUP_K = 4  # of the shared lookup start
WIDEST_K = 15  # drafts of a pass that is full: one row less than the engine's width
AROUND_K = (1, 2, 3, 4, 5, 6, 7, 8, 9)  # budgets about both drafters' K, 4 and 7
PREFIX_BUDGETS = (1, 2, 4, 5, 7, 8, 23, 24)
CONTEXT = 1024  # positions of the main container
OTHER_KINDS_BUDGETS = (2, 5, 8, 24)  # of packs of other kinds, whose K are 4 and 7
BEYOND = 40  # leaves the prescribed reply, and gives late rounds their full width
OTHER_SEED = 8
# A sampler to which the padded rows of the vocabulary, where they are left in, are the likeliest of all.
BOUNDED: dict[str, Any] = {"temperature": 1.0, "top_k": 5, "presence_penalty": 0.6}
# Few candidates each: a draw that falls on the border between two of them may go either way by the last bit of a row.
SAMPLERS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.9, "top_k": 2},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 0.8, "top_k": 4},
    {"temperature": 2.0, "top_k": 5},
    {"temperature": 1.5, "top_k": 8},
    {"temperature": 1.3, "top_k": 3, "top_p": 0.9},
    {"temperature": 1.2, "top_k": 6, "top_p": 0.8},
    BOUNDED,
    {"temperature": 1.0, "top_k": 4, "frequency_penalty": 0.4, "repetition_penalty": 1.1},
    {"temperature": 1.0, "top_k": 4, "logit_bias": {"93": 4}},
)


def same_reply(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Prompts x budgets on the three main arms, few of them on those of a device."""
    check = "same-reply"
    if tier is Tier.MUTATION:
        for name in ("hit-1", "decoy-1"):
            yield from ask(completion(fixture.stream(name), 24, check), *MAIN)
        return
    yield from seed_plan(fixture)
    for stream in fixture.streams:
        yield from ask(completion(stream, 24, check), *MAIN)
    for request in device_requests(fixture, tier, check):
        if request.is_greedy:
            yield from ask(request, *DEVICE)
    yield from second_generation(fixture, check)
    for request in neutral(fixture.stream("hit-1"), check):
        yield from ask(request, *MAIN)
    every = tuple(range(1, 25))
    near = {stream.name: every if tier is Tier.DEEP else AROUND_K for stream in fixture.streams}
    swept = fixture.streams if tier is Tier.DEEP else tuple(map(fixture.stream, ("main-1", "hit-1", "repeat-1")))
    for stream in swept:
        for budget in near[stream.name]:
            yield from ask(completion(stream, budget, check), *MAIN)
    if tier is Tier.DEEP:
        for stream in swept:
            yield from ask(completion(stream, BEYOND, check), *MAIN)
        yield from ask(completion(_filling("full", fixture), BEYOND, check), *MAIN)
    yield from _same_reply_elsewhere(fixture, tier, check)


def _same_reply_elsewhere(fixture: Fixture, tier: Tier, check: str) -> Iterator[Asked]:
    """Few requests to packs of other kinds, and each stream of the companions: a deeper model, other texts, ties."""
    for name in ("main-1", "burst-1"):
        for budget in OTHER_KINDS_BUDGETS if tier is Tier.GATE else range(1, 25):
            yield from ask(completion(fixture.stream(name), budget, check), PLAIN, *OTHER_KINDS)
    for companion, starts in (("five", FIVE), ("text", TEXT), ("tie", TIE)):
        for stream in fixture.companion(companion).streams:
            yield from ask(completion(stream, len(stream.reply_ids), check), *starts)


def _filling(name: str, fixture: Fixture) -> Stream:
    """Return a prompt that leaves the context of the main container room for one token."""
    ids = joined(name, fixture.streams * 3).prompt_ids
    return Stream(name, "", ids[: CONTEXT - 1], ())


def same_sampled_reply(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """A seeded request, another seed, a greedy one, and the first again after that traffic."""
    check = "same-sampled-reply"
    starts: tuple[Start, ...] = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    if tier is Tier.MUTATION:
        yield from ask(completion(fixture.stream("main-1"), 8, check, **BOUNDED, seed=SEED), *starts)
    else:
        yield from seed_plan(fixture)
        yield from _sampled_sweep(fixture, check)
    names = ("main-1", "main-2", "miss-1") if tier is Tier.DEEP else ("main-1",)
    for stream in map(fixture.stream, names):
        budget = max(BUDGETS)
        first = completion(stream, budget, check, temperature=TEMPERATURE, seed=SEED)
        other = completion(stream, budget, check, temperature=TEMPERATURE, seed=OTHER_SEED)
        again = completion(stream, budget, check, label="again", temperature=TEMPERATURE, seed=SEED)
        for request in (first, other, completion(stream, budget, check), again):
            yield from ask(request, *starts)
            yield from ask(request, *(() if tier is Tier.MUTATION else DEVICE))


def _sampled_sweep(fixture: Fixture, check: str) -> Iterator[Asked]:
    """Every stream under every sampler, each with a seed of its own: a subject that drafts while sampling may differ at any token."""
    for number, stream in enumerate(fixture.streams):
        for turn, sampler in enumerate(SAMPLERS):
            fields = {**sampler, "seed": SEED + 100 * (turn + 1) + number}
            yield from ask(completion(stream, max(BUDGETS), check, role="sweep", **fields), *MAIN)


def drafter_independence(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """The same requests whatever drafts: each K, each pack, each fallback bar."""
    check = "drafter-independence"
    wide = widest_rounds(fixture.streams, WIDEST_K, BEYOND, 2)
    requests = [completion(stream, BEYOND, check) for stream in wide]
    for stream in fixture.companion("tie").streams:  # drafts hold the higher id of a tie, which plain never says
        yield from ask(completion(stream, len(stream.reply_ids), check), *TIE)
    if tier is Tier.MUTATION:
        for request in requests:
            yield from ask(request, PLAIN, lookup("k-15", WIDEST_K))
        return
    requests += [completion(fixture.stream(name), 24, check) for name in ("main-1", "repeat-1")]
    requests.append(completion(joined("twice", (wide[0], wide[0])), 24, check))
    requests.append(completion(fixture.stream("hit-1"), 5, check))  # a budget below most K
    for request in requests:
        yield from ask(request, PLAIN, LOOKUP, DRAFT, *_other_drafters(fixture, tier))
    rules = DEEP_RULES if tier is Tier.DEEP else GATE_RULES
    for name in ("burst-1", "decoy-1", "hit-1"):
        request = completion(fixture.stream(name), 24, check)
        yield from ask(request, PLAIN, *(fallback_start(below, window) for below, window in rules), *pack_fallback_starts(tier))


def budget_prefix(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """One prompt at many budgets, and a reply with a natural end inside a block at budgets on both sides of it."""
    check = "budget-prefix"
    streams: Iterable[Stream] = (fixture.stream("repeat-1"),)
    budgets: Iterable[int] = (2, 5, 8, 9, 24)
    if tier is Tier.GATE:
        streams, budgets = (fixture.stream("repeat-1"), fixture.stream("hit-1")), PREFIX_BUDGETS
    elif tier is Tier.DEEP:
        streams, budgets = fixture.streams, range(1, 25)
    for stream in streams:
        for budget in budgets:
            yield from ask(completion(stream, budget, check), *MAIN)
    if tier is not Tier.MUTATION:
        prompts = end_token(fixture, LOOKUP_K).prompts  # the last ends on the last draft of its first block
        for ended in prompts if tier is Tier.DEEP else prompts[LOOKUP_K:]:
            for budget in range(1, len(ended.reply_ids) + 1 if tier is Tier.DEEP else LOOKUP_K + 4):
                yield from ask(completion(ended, budget, check), *end_starts(fixture))


def _other_drafters(fixture: Fixture, tier: Tier) -> Iterator[Start]:
    """Starts with other drafters than the main arms'."""
    is_deep = tier is Tier.DEEP
    for k in range(1, WIDEST_K + 1) if is_deep else (1, 2, 7, WIDEST_K):
        if k != LOOKUP_K:
            yield lookup(f"k-{k}", k)
    if is_deep:
        yield lookup("k-0", 0)  # no drafter at all
        yield lookup("k-64", 64)  # more than a pass has rows
    for draft_k in range(1, fixture.block_sizes["mixed"] - 1) if is_deep else (3,):
        yield draft(f"k-{draft_k}", draft_k=draft_k)
        yield draft(f"mixed2-k-{draft_k}", "mixed2", draft_k=draft_k)
    yield from OTHER_KINDS
    for pack in sorted(set(fixture.packs) - {"mixed"} - {start.pack for start in OTHER_KINDS}) if is_deep else ():
        yield draft(pack, pack)


SLICES: dict[str, Slice] = {
    "same-reply": same_reply,
    "same-sampled-reply": same_sampled_reply,
    "budget-prefix": budget_prefix,
    "drafter-independence": drafter_independence,
}
