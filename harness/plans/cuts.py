"""What the laws on where a reply ends are asked: stops, end tokens, the end of the context, and streams of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion, streamed
from harness.plans.seed import STOPS
from harness.plans.starts import ALWAYS, LOOKUP, MAIN, MODEL, PLAIN, TEXT, TEXT_PLAIN, draft, lookup, plain
from harness.plans.streams import EndToken, continued, end_token, end_tokens, is_cut_in_block
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Start, Tier

LOOKUP_K = 4
EACH_PLACE = "each-place"  # role of requests to a start on which the end token must fall on each place of a pack's block
NEVER = "~~"  # in no reply: streams use ids below 90, and "~" is 93
CONTEXT_ROOM = 20  # tokens of reply that the twin's context leaves behind a stream's own prompt
CHARACTERS = "characters"  # role of replies with characters of several bytes, and bytes that are no UTF-8
HOT = 50.0  # a temperature at which every id of the vocabulary comes, also halves of characters
HOT_SEEDS = (1, 2)
HOT_BUDGET = 64

Cut = tuple[int, tuple[str, ...]]  # budget, stops
Body = tuple[Stream, int, dict[str, Any]]  # prompt, budget, further fields


def stop_cut(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Stops cut out of the prescribed replies, and each reply unstopped on the plain arm to tell what is right."""
    check = "stop-cut"
    starts = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    for stream in _sources(fixture, tier):
        yield from ask(completion(stream, len(stream.reply_ids), check, role="whole"), PLAIN)
        for budget, stops in _cuts(stream, tier):
            yield from ask(completion(stream, budget, check, stop=list(stops)), *starts)


def end_token_slice(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """On twins whose end tokens are tokens of the streams: replies that they end, and the same ones with ignore_eos."""
    check = "end-token"
    first = end_token(fixture, LOOKUP_K)
    tokens = _one_per_stream(fixture) if tier is Tier.DEEP else [first]
    for ended in tokens:
        starts = list(end_starts(fixture, ended, first))
        if tier is Tier.DEEP:
            name = starts[0].id.removesuffix("/plain")
            starts.append(draft(name, model=starts[0].model, reference=starts[0].id))
        for source in dict.fromkeys((*ended.prompts, *_others(fixture, ended, tier))):
            budget = len(source.reply_ids)
            yield from ask(completion(source, budget, check, role="whole", ignore_eos=True), *starts)
            yield from ask(completion(source, budget, check), *starts)
    if tier is Tier.DEEP:
        yield from _at_each_place_of_a_pack(fixture)


def _at_each_place_of_a_pack(fixture: Fixture) -> Iterator[Asked]:
    """On a pack whose drafts all land: each stream ended by a token that comes late, from each beginning of its reply.

    So the token falls on each place of a block: a round delivers a whole one, and beginnings shift it by one.
    """
    size = fixture.block_sizes[ALWAYS]
    for stream in fixture.streams:
        reply = stream.reply_ids
        place = next((at for at, token in enumerate(reply) if at >= size and reply.index(token) == at), None)
        if place is None:  # it says too few different tokens
            continue
        name = f"always-end-{reply[place]}"
        model = f"{MODEL}+eos={_unsaid(fixture)}.{reply[place]}"
        reference = plain(name, model)
        starts = (reference, draft(name, pack=ALWAYS, model=model, reference=reference.id))
        for gone in range(place + 1):
            source = continued(stream, gone)
            budget = len(source.reply_ids)
            whole = completion(source, budget, "end-token", role="whole", ignore_eos=True)
            yield from ask(whole, *starts)
            yield from ask(completion(source, budget, "end-token", role=EACH_PLACE), *starts)


def end_starts(fixture: Fixture, ended: EndToken | None = None, first: EndToken | None = None) -> tuple[Start, Start]:
    """Return the plain and the lookup start on the twin that a token ends; the first choice's is called "end"."""
    first = first or end_token(fixture, LOOKUP_K)
    ended = ended or first
    name = "end" if ended == first else f"end-{ended.token}"
    model = f"{MODEL}+eos={_unsaid(fixture)}.{ended.token}"  # a list, and its first id never comes
    return plain(name, model), lookup(name, LOOKUP_K, model, reference=f"{name}/plain")


def context_end(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """On a twin with a short context: budgets and prompts swept over its end, prompts that leave no room, and what comes next."""
    check = "context-end"
    for room in range(8, 25) if tier is Tier.DEEP else (CONTEXT_ROOM,):
        size = len(fixture.streams[0].prompt_ids) + room
        model = f"{MODEL}+context={size}"
        name = f"context-{size}"
        reference = plain(name, model)
        starts = [reference, lookup(name, LOOKUP_K, model, reference=reference.id)]
        if tier is not Tier.MUTATION:
            starts.append(draft(name, model=model, reference=reference.id))
        for source, budget in _over_the_end(fixture, room, tier):
            yield from ask(completion(source, budget, check), *starts)
        for num_tokens in (room,) if tier is Tier.MUTATION else (room - 1, room, room + 1):
            if num_tokens > len(fixture.stream("repeat-1").reply_ids):
                continue
            source = continued(fixture.stream("repeat-1"), num_tokens)
            request = completion(source, 40, check, role="edge")
            if len(source.prompt_ids) >= size:
                request = msgspec.structs.replace(request, role="over-long", expect=400, refusal="prompt")
            yield from ask(request, *starts)
            yield from ask(completion(fixture.stream("hit-1"), 5, check, label=f"after-{source.name}"), *starts)


def stream_join(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Each request twice on the same start, streamed and not."""
    is_small = tier is Tier.MUTATION
    yield from _in_both_modes(_streamed_bodies(fixture, tier), (PLAIN, LOOKUP) if is_small else MAIN)
    yield from _in_both_modes(_streamed_characters(fixture, tier), (TEXT_PLAIN,) if is_small else TEXT, CHARACTERS)
    if not is_small:
        hot = ({"temperature": HOT, "seed": seed, "ignore_eos": True} for seed in HOT_SEEDS)
        yield from _in_both_modes(((fixture.stream("main-1"), HOT_BUDGET, fields) for fields in hot), (PLAIN,), CHARACTERS)


def _in_both_modes(bodies: Iterable[Body], starts: Sequence[Start], role: str = "") -> Iterator[Asked]:
    for source, budget, fields in bodies:
        for ask_for in (completion, streamed):
            yield from ask(ask_for(source, budget, "stream-join", role=role, **fields), *starts)


def _sources(fixture: Fixture, tier: Tier) -> tuple[Stream, ...]:
    """Streams that are stopped: a copying one, one that repeats what its prompt holds already, and a varied one."""
    repeating = continued(fixture.stream("repeat-1"), 7)
    if tier is Tier.MUTATION:
        return fixture.stream("hit-1"), repeating
    if tier is Tier.GATE:
        return fixture.stream("hit-1"), repeating, fixture.stream("main-1")
    return (repeating, *fixture.streams)


def _cuts(stream: Stream, tier: Tier) -> Iterator[Cut]:
    text, whole = stream.reply, len(stream.reply_ids)
    for end in range(5, 9):
        yield end, (text[end - 2 : end],)  # completed by the last token of the budget
    if tier is Tier.MUTATION:
        yield from ((whole, (text[end - 3 : end],)) for end in (9, 11, 12))
        return
    if tier is Tier.GATE:
        yield from ((whole, (text[start : start + 1 + start % 4],)) for start in range(7, 13))
        if stream.name in STOPS:
            yield whole, (text[STOPS[stream.name]],)
    else:
        yield from _every_cut(text, whole)
    yield whole, (text[10:13], text[8:11])  # the one listed second is complete first
    yield whole, (text[9:12], text[11:12])  # both completed by one token
    yield whole, (text[11:12], text[9:12])
    yield 8, (text[6:9],)  # the budget ends one token before it is complete
    yield 12, (text[10:12] + NEVER,)  # held back until the budget ends
    yield whole, (stream.prompt[-1] + text[0],)  # a stop is looked for in the reply alone
    yield whole, (NEVER, text[4:7], text[5:7], text[6:9], NEVER + text[0], text[12:16], text[3:7], text[2:7])


def _every_cut(text: str, whole: int) -> Iterator[Cut]:
    """Yield a stop that ends with each token, of 1 to 4 characters: alone, at the end of the budget, and with another one."""
    for end in range(1, whole + 1):
        for size in range(1, min(end, 4) + 1):
            stop = text[end - size : end]
            yield whole, (stop,)
            yield end, (stop,)
            if size > 1:
                yield whole, (text[end - 1 : end], stop)  # both completed by one token, in either order
                yield whole, (stop, text[end - 1 : end])
                yield whole, (text[end - 1 : end - 1 + size], stop)  # the one listed second begins before and is complete first


def _others(fixture: Fixture, ended: EndToken, tier: Tier) -> tuple[Stream, ...]:
    """Further streams that say the token, whatever the place."""
    if tier is Tier.MUTATION:
        return ()
    return tuple(stream for stream in fixture.streams if ended.token in stream.reply_ids)


def _one_per_stream(fixture: Fixture) -> list[EndToken]:
    by_stream: dict[str, EndToken] = {}
    for ended in end_tokens(fixture, LOOKUP_K):
        by_stream.setdefault(ended.prompts[0].name.partition("+")[0], ended)
    return list(by_stream.values())


def _unsaid(fixture: Fixture) -> int:
    said = {token for stream in fixture.streams for token in stream.reply_ids}
    return next(token for token in range(93, -1, -1) if token not in said)


def _over_the_end(fixture: Fixture, room: int, tier: Tier) -> Iterator[tuple[Stream, int]]:
    """Yield prompts and budgets about the end of the context; on some, lookup fills it with an accepted draft."""
    bases = (fixture.stream("repeat-1"), fixture.stream("hit-1"))
    if tier is not Tier.MUTATION:
        for stream in bases:
            yield from ((stream, budget) for budget in (room - 2, room - 1, room, room + 1, room + 4))
    num_endings = room if tier is Tier.DEEP else 4
    for stream in fixture.streams if tier is Tier.DEEP else bases:
        phases = [continued(stream, num_tokens) for num_tokens in range(room)]
        in_a_block = [phase for gone, phase in enumerate(phases) if gone and is_cut_in_block(phase, LOOKUP_K, room - gone)]
        yield from ((phase, 40) for phase in dict.fromkeys((*phases[:2], *in_a_block[:num_endings])))


def _streamed_bodies(fixture: Fixture, tier: Tier) -> Iterator[Body]:
    hit, repeating = fixture.stream("hit-1"), continued(fixture.stream("repeat-1"), 7)
    yield from _two_stops(hit)
    if tier is Tier.MUTATION:
        yield hit, 12, {"stop": [hit.reply[10:12] + NEVER]}  # its budget ends while text is held back
        return
    yield from _two_stops(repeating)
    sources: Sequence[Stream] = (hit, repeating, fixture.stream("main-1"))
    for stream in fixture.streams if tier is Tier.DEEP else sources:
        yield stream, len(stream.reply_ids), {}
        yield stream, 1, {}
        yield stream, 12, {"stop": [stream.reply[10:12] + NEVER]}
        yield stream, len(stream.reply_ids), {"stop": [stream.reply[9:12]]}
        if tier is Tier.DEEP:
            yield from _two_stops(stream)


def _streamed_characters(fixture: Fixture, tier: Tier) -> Iterator[Body]:
    """Yield replies of characters of several bytes, whole, ended inside a character and cut at one; and such as are no UTF-8."""
    text = fixture.companion("text")
    for stream in text.streams:
        yield stream, len(stream.reply_ids), {}
    if tier is Tier.MUTATION:
        return
    for stream in text.streams:
        for budget in range(1, len(stream.reply_ids)) if tier is Tier.DEEP else (5, 7, 24):
            yield stream, budget, {}
    for stream in text.of_role("utf8"):
        for size in (1, 2):
            yield stream, len(stream.reply_ids), {"stop": [stream.reply[7 : 7 + size]]}


def _two_stops(stream: Stream) -> Iterator[Body]:
    """Yield pairs of which the longer one must be held back while the other, nearly complete too, asks for less."""
    text = stream.reply
    long, rival = text[6:11], text[8:10] + NEVER
    for stops in ([long, rival], [rival, long], [NEVER[0], long], [long, NEVER[0]]):
        yield stream, len(stream.reply_ids), {"stop": stops}


SLICES: dict[str, Slice] = {
    "stop-cut": stop_cut,
    "end-token": end_token_slice,
    "context-end": context_end,
    "stream-join": stream_join,
}
