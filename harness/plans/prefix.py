"""What the law on the prefix cache is asked: prompts that share all, a part or nothing with what the request before them ran.

Each start but that of a pack of generation 2 begins as `request-order` does, with a probe and a request that fails inside, so that
both share their starts. Every prompt is asked of the plain arm too, once: what it answers there is what it must answer here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harness.plans.build import Asked, Slice, ask
from harness.plans.order import opening
from harness.plans.requests import completion, streamed
from harness.plans.seed import SEED, TEMPERATURE
from harness.plans.starts import CACHED, CACHED_DRAFT_2, PLAIN
from harness.plans.streams import continued
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start, Tier

CHECK = "prefix-cache"
WHOLE_REPLY = 24  # tokens that a stream prescribes
BEYOND = 32  # more of a reply that breaks off than the next prompt holds
TAIL = 8  # tokens of what a user says next
STOPPED_AT = 7  # tokens of a repeating reply: inside a lookup round of four drafts, the second one


def prefix_cache(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """One sequence of requests on each arm with a cache, and at leisure more of them."""
    yield from _on_both(opening(fixture, CHECK), CACHED)
    yield from _on_both(_sequence(fixture, tier), CACHED)
    yield from _on_both(_resuming(fixture), [CACHED_DRAFT_2])
    first = fixture.stream("main-1")
    yield from ask(completion(first, BEYOND, CHECK), PLAIN)
    if tier is Tier.MUTATION:
        return
    yield from ask(completion(fixture.stream("main-2"), BEYOND, CHECK), PLAIN)
    if tier is Tier.DEEP:
        yield from _on_both(_sweep(fixture), CACHED)
        yield from _failing_in_prefill(first)


def turned(stream: Stream, other: Stream) -> Stream:
    """Return the next turn after a whole reply: the prompt, the reply, and the beginning of another prompt."""
    ids = stream.prompt_ids + stream.reply_ids + other.prompt_ids[:TAIL]
    return Stream(f"{stream.name}>{other.name}", "", ids, ())


def spliced(stream: Stream, size: int, other: Stream) -> Stream:
    """Return a prompt that begins as one and goes on as another from `size` tokens on."""
    return Stream(f"{stream.name}:{size}:{other.name}", "", stream.prompt_ids[:size] + other.prompt_ids[size:], ())


def _resuming(fixture: Fixture) -> Iterator[Request]:
    """Yield the least that shows each side of the rule: what resumes from nothing, from all but one token, and from a part."""
    hit, first, second = (fixture.stream(name) for name in ("hit-1", "main-1", "main-2"))
    yield completion(turned(first, second), 4, CHECK)  # after the one that failed, where one did
    yield completion(hit, WHOLE_REPLY, CHECK)
    yield completion(hit, WHOLE_REPLY, CHECK, label="once-more")
    yield completion(turned(hit, first), 6, CHECK)
    yield completion(spliced(hit, 10, second), 6, CHECK)


def _sequence(fixture: Fixture, tier: Tier) -> Iterator[Request]:
    hit, first, second = (fixture.stream(name) for name in ("hit-1", "main-1", "main-2"))
    one = Stream("one", "", hit.prompt_ids[:1], ())
    yield from _resuming(fixture)
    yield from _stopped_and_beyond(fixture)
    yield completion(one, 3, CHECK)
    yield completion(hit, WHOLE_REPLY, CHECK, label="after-one")
    if tier is Tier.MUTATION:
        return
    refused = completion(hit, 0, CHECK, role="refused")
    yield msgspec.structs.replace(refused, expect=400, refusal="max_tokens")
    yield completion(hit, 1, CHECK)
    yield streamed(second, 400, CHECK, role="cancelled", leave_after_chunks=3)
    yield completion(turned(second, first), 4, CHECK)
    yield completion(second, 12, CHECK, temperature=TEMPERATURE, seed=SEED)
    yield completion(second, 5, CHECK, logprobs=2)


def _stopped_and_beyond(fixture: Fixture) -> Iterator[Request]:
    """Yield a reply that is stopped inside an accepted block, and a prompt that goes on where it would have gone."""
    source = continued(fixture.stream("repeat-1"), 7)
    yield completion(source, len(source.reply_ids), CHECK, stop=[source.reply[STOPPED_AT - 2 : STOPPED_AT]])
    yield completion(continued(fixture.stream("repeat-1"), 21), 3, CHECK)


def _sweep(fixture: Fixture) -> Iterator[Request]:
    """Yield each stream, its next turns from every place of its reply, and prompts that leave it at every place."""
    other = fixture.stream("main-4")
    for stream in fixture.streams:
        yield completion(stream, WHOLE_REPLY, CHECK)
        for num_tokens in range(1, WHOLE_REPLY):
            yield completion(continued(stream, num_tokens), 2, CHECK)
            yield completion(stream, num_tokens, CHECK, label="again")
            yield completion(turned(stream, other), 2, CHECK, label=f"after-{num_tokens}")
        for size in range(1, len(stream.prompt_ids)):
            yield completion(stream, 2, CHECK, label=f"before-{size}")
            yield completion(spliced(stream, size, other), 2, CHECK)


def _failing_in_prefill(stream: Stream) -> Iterator[Asked]:
    """Yield starts whose first request fails in the second pass of its prefill: the first pass stays."""
    source = turned(stream, stream)
    for arm in CACHED:
        start = msgspec.structs.replace(
            arm, id=f"cached-prefill/{arm.id.partition('/')[2]}", parameters={**arm.parameters, "fail_pass": 2}
        )
        failing = completion(source, 4, CHECK, role="failed", label="failed")
        yield from ask(msgspec.structs.replace(failing, expect=500), start)
        requests = [completion(source, 4, CHECK), completion(source, 4, CHECK, label="again"), completion(stream, 4, CHECK)]
        others = [completion(spliced(source, 20, stream), 4, CHECK), completion(continued(stream, 5), 2, CHECK)]
        yield from _on_both([*requests, *others, completion(Stream("none", "", (93, *source.prompt_ids), ()), 2, CHECK)], [start])


def _on_both(requests: Iterable[Request], starts: Sequence[Start]) -> Iterator[Asked]:
    """Ask each request of all starts; the plain arm is asked what can be answered there, once for each question."""
    asked_plain: set[str] = set()
    for request in requests:
        yield from ask(request, *starts)
        question = msgspec.json.encode(request.body, order="deterministic").decode()
        if request.expect == 200 and request.leave_after_chunks is None and question not in asked_plain:
            asked_plain.add(question)
            yield Asked(PLAIN, request)


SLICES: dict[str, Slice] = {CHECK: prefix_cache}
