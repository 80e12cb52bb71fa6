"""What the law on logprobs is asked: replies with logprobs, and after each of their beginnings a request for one token more."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import chat, completion, streamed
from harness.plans.seed import SEED, TEMPERATURE
from harness.plans.starts import DUMP, DUMP_LOOKUP, DUMP_PLAIN, LOOKUP, MAIN, PLAIN
from harness.plans.streams import continued
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start, Tier

CHECK = "logprobs-target"
NUM_ALTERNATIVES = 5
MOST_ALTERNATIVES = 20


def logprobs_target(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Rescored replies on the main arms, and with files of logits beside them."""
    source, size = fixture.stream("main-1"), 6 if tier is Tier.MUTATION else 12
    yield from _rescored(source, size, NUM_ALTERNATIVES)
    starts: tuple[Start, ...] = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    dumping: tuple[Start, ...] = (DUMP_PLAIN,) if tier is Tier.MUTATION else (DUMP_PLAIN, DUMP_LOOKUP)
    whole = completion(source, size, CHECK, logprobs=NUM_ALTERNATIVES)
    yield from ask(whole, *starts, *dumping)
    yield from ask(streamed(source, size, CHECK, logprobs=NUM_ALTERNATIVES), *starts)
    yield from ask(
        completion(fixture.stream("hit-1"), 12, CHECK, logprobs=1), *starts
    )  # long enough for a round, where there are some
    if tier is Tier.MUTATION:
        return
    for request in _others(fixture, source):
        yield from ask(request, *starts)
    yield from ask(_sampled(fixture), *dumping)
    if tier is Tier.DEEP:
        for stream in fixture.streams:
            yield from _rescored(stream, len(stream.reply_ids), MOST_ALTERNATIVES)
            yield from ask(completion(stream, len(stream.reply_ids), CHECK, logprobs=MOST_ALTERNATIVES), *MAIN, *DUMP)


def _rescored(source: Stream, size: int, num_alternatives: int) -> Iterator[Asked]:
    """Yield a request for one token after each beginning of a reply, the empty one included."""
    for num_tokens in range(size):
        yield Asked(PLAIN, completion(continued(source, num_tokens), 1, CHECK, role="rescores", logprobs=num_alternatives))


def _others(fixture: Fixture, source: Stream) -> Iterator[Request]:
    """Yield replies that end inside, that ask for the chosen token alone, that sample, and one of the other dialect."""
    yield completion(source, 24, CHECK, stop=[source.reply[6:8]], logprobs=NUM_ALTERNATIVES)
    yield completion(fixture.stream("main-2"), 5, CHECK, logprobs=0)
    yield _sampled(fixture)
    yield chat(source, 6, CHECK, logprobs=True, top_logprobs=2)


def _sampled(fixture: Fixture) -> Request:
    return completion(fixture.stream("main-3"), 8, CHECK, temperature=TEMPERATURE, seed=SEED, logprobs=3)


SLICES: dict[str, Slice] = {CHECK: logprobs_target}
