"""What the law on the oracle's own forward is asked: prescribed replies on the plain arm, whole, cut and ended by each rule."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plans.build import Asked, Slice, ask
from harness.plans.cuts import end_starts
from harness.plans.requests import completion
from harness.plans.seed import BUDGETS, STOPS
from harness.plans.starts import FIVE_PLAIN, PLAIN, TEXT_PLAIN, TIE_PLAIN
from harness.plans.streams import end_token
from harness.records.fixture import Fixture
from harness.records.plan import Tier

LOOKUP_K = 4  # of the end tokens' places
TIE = "tie"  # role of replies in which two ids have bit-equal scores


def oracle_reply(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Replies within what streams prescribe: every choice in them is certified."""
    check = "oracle-reply"
    names = ("main-1", "hit-1", "miss-1", "constant-1")
    streams = tuple(map(fixture.stream, names)) if tier is Tier.MUTATION else fixture.streams
    for stream in streams:
        yield from ask(completion(stream, len(stream.reply_ids), check), PLAIN)
    for stream in fixture.companion("tie").streams[: 1 if tier is Tier.MUTATION else None]:
        yield from ask(completion(stream, len(stream.reply_ids), check, role=TIE), TIE_PLAIN)
    if tier is Tier.MUTATION:
        return
    for companion, start in (("five", FIVE_PLAIN), ("text", TEXT_PLAIN)):
        for stream in fixture.companion(companion).streams:
            yield from ask(completion(stream, len(stream.reply_ids), check), start)
    for stream in fixture.streams:
        for budget in range(1, len(stream.reply_ids)) if tier is Tier.DEEP else BUDGETS:
            yield from ask(completion(stream, budget, check), PLAIN)
        if stream.name in STOPS:
            yield from ask(completion(stream, len(stream.reply_ids), check, stop=[stream.reply[STOPS[stream.name]]]), PLAIN)
    ended = end_token(fixture, LOOKUP_K)
    for source in ended.prompts:
        budget = len(source.reply_ids)
        yield from ask(completion(source, budget, check), end_starts(fixture)[0])
        yield from ask(completion(source, budget, check, ignore_eos=True), end_starts(fixture)[0])


SLICES: dict[str, Slice] = {"oracle-reply": oracle_reply}
