"""Prompts and replies by kind: what the head is solved to say. It does not know any model.

Replies are free, so behaviour under prompt lookup is a matter of combinatorics: a hit reply copies the prompt piece by
piece, a decoy reply always repeats a token but never continues as before, and so on. Prompts are printable ASCII, and replies
too, but for the kinds whose text is not.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import numpy as np

from harness.fabricate.errors import FabricationError
from harness.fabricate.lookup import Rule, accept_lengths, propose, rounds, shows, text_of
from harness.fabricate.texts import ids_of, invalid_reply, is_continuation, utf8_reply
from harness.records.fixture import Stream, bytes_of_ids

NUM_ASCII = 94  # ids of printable ASCII: prompts, and rivals of the head, are among them
NUM_REPLY = 90  # ids that replies use; the rest is free for ids that no reply may hold
FEWEST_DISTINCT = 12
HIT_WIDTHS = (4, 7)  # the draft lengths for which hit streams are chosen
_MAIN_POOL = 30
_HIT_DRAWS = 1500
_TEXT_DRAWS = 300
_LONGEST_PIECE = 11
_REPEAT_PERIOD = 6
_BURST_COPY = 10  # two full rounds of 4 drafts

Ids = list[int]


class Kind(enum.StrEnum):
    """What a stream is for."""

    MAIN = "main"  # varied
    REPEAT = "repeat"  # the reply has a period of 6
    HIT = "hit"  # lookup lands drafts, of every accept length
    MISS = "miss"  # lookup never proposes
    DECOY = "decoy"  # lookup always proposes and never lands
    CONSTANT = "constant"  # one token that the prompt does not hold: lookup rounds of exactly two tokens
    BURST = "burst"  # lookup lands whole rounds first, then always proposes and never lands
    UTF8 = "utf8"  # characters of two to four bytes, cut by the edges of lookup rounds
    INVALID = "invalid"  # bytes that are no UTF-8, each twice, and half a character at the end
    TIE = "tie"  # copies the prompt, but says the lower id of a tie where that holds the higher one


class StreamRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stream to make; streams of a kind are named by their order: main-1, main-2, ..."""

    kind: Kind
    seed: int


@dataclass(frozen=True, slots=True)
class _Draw:
    rng: np.random.Generator
    prompt_length: int
    reply_length: int
    hits: list[Stream] = field(default_factory=list)  # already chosen: the next hit adds what they lack
    ties: Sequence[tuple[int, int]] = ()  # (low, high) ids with one score

    def distinct(self, count: int, below: int = NUM_REPLY) -> Ids:
        return [int(token) for token in self.rng.permutation(below)[:count]]


def make_streams(
    recipes: Sequence[StreamRecipe], prompt_length: int, reply_length: int, ties: Sequence[tuple[int, int]] = ()
) -> tuple[Stream, ...]:
    """Make all streams of a recipe, in its order; `ties` are ids with one score. Raises FabricationError on equal prompts."""
    made: list[Stream] = []
    counts: Counter[Kind] = Counter()
    for recipe in recipes:
        counts[recipe.kind] += 1
        hits = [stream for stream in made if stream.role == Kind.HIT]
        draw = _Draw(np.random.default_rng([recipe.seed, 3]), prompt_length, reply_length, hits, ties)
        prompt, reply = _MAKERS[recipe.kind](draw)
        name = f"{recipe.kind}-{counts[recipe.kind]}"
        same = [stream.name for stream in made if stream.prompt_ids == tuple(prompt)]
        if same:
            raise FabricationError(f"stream {name}: its prompt equals that of {same[0]}; give it another seed")
        made.append(Stream(name, recipe.kind, tuple(prompt), tuple(reply)))
    return tuple(made)


def _main(draw: _Draw) -> tuple[Ids, Ids]:
    pool = draw.distinct(_MAIN_POOL)
    prompt = draw.distinct(draw.prompt_length, NUM_ASCII)
    while True:
        reply = [int(token) for token in draw.rng.choice(pool, draw.reply_length)]
        if len(set(reply)) >= min(FEWEST_DISTINCT, draw.reply_length):
            return prompt, reply


def _repeat(draw: _Draw) -> tuple[Ids, Ids]:
    ids = draw.distinct(draw.prompt_length + _REPEAT_PERIOD)
    period = ids[draw.prompt_length :]
    return ids[: draw.prompt_length], [period[t % _REPEAT_PERIOD] for t in range(draw.reply_length)]


def _miss(draw: _Draw) -> tuple[Ids, Ids]:
    ids = draw.distinct(draw.prompt_length + draw.reply_length)
    return ids[: draw.prompt_length], ids[draw.prompt_length :]


def _constant(draw: _Draw) -> tuple[Ids, Ids]:
    *prompt, token = draw.distinct(draw.prompt_length + 1)
    return prompt, [token] * draw.reply_length


def _decoy(draw: _Draw) -> tuple[Ids, Ids]:
    prompt = draw.distinct(draw.prompt_length - 1)
    prompt.append(prompt[3])
    return prompt, _decoy_tail(draw, prompt, draw.reply_length)


def _burst(draw: _Draw) -> tuple[Ids, Ids]:
    prompt = draw.distinct(draw.prompt_length - 1)
    start = int(draw.rng.integers(0, draw.prompt_length - 1 - _BURST_COPY))
    prompt.append(prompt[start])
    copy = prompt[start + 1 : start + 1 + _BURST_COPY]
    return prompt, copy + _decoy_tail(draw, prompt + copy, draw.reply_length - _BURST_COPY)


def _decoy_tail(draw: _Draw, stream: Ids, count: int) -> Ids:
    """Continue a stream with tokens that it holds, each another one than lookup would propose there."""
    ids = list(stream)
    order = [int(token) for token in draw.rng.permutation(sorted(set(ids)))]
    used: Counter[int] = Counter()
    for _ in range(count):
        barred = {ids[-1], *map(ord, propose(text_of(ids), 1))}
        token = min((one for one in order if one not in barred), key=lambda one: used[one])
        used[token] += 1
        ids.append(token)
    return ids[len(stream) :]


def _hit(draw: _Draw) -> tuple[Ids, Ids]:
    """Draw many, and take the one that adds most to what the hits chosen before already show."""
    covered = {fact for stream in draw.hits for fact in _facts(list(stream.prompt_ids), list(stream.reply_ids))}
    best: tuple[float, Ids, Ids] = (-1.0, [], [])
    for _ in range(_HIT_DRAWS):
        prompt, reply = _draw_hit(draw)
        if len(set(reply)) >= FEWEST_DISTINCT:
            worth = sum(weight for fact, weight in _facts(prompt, reply).items() if fact not in covered)
            best = max(best, (worth, prompt, reply), key=lambda one: one[0])
    if best[0] < 0:
        raise FabricationError(f"hit stream: no reply of {draw.reply_length} holds {FEWEST_DISTINCT} ids; make it longer")
    return best[1], best[2]


def _draw_hit(draw: _Draw) -> tuple[Ids, Ids]:
    prompt = draw.distinct(draw.prompt_length - 1)
    at = int(draw.rng.integers(0, draw.prompt_length - 2))
    prompt.append(prompt[at])
    return prompt, _copied(draw, prompt, at)


def _copied(draw: _Draw, prompt: Ids, at: int | None = None) -> Ids:
    """Return a reply that copies the prompt piece by piece, first what follows place `at`, else its last id's first place."""
    at = prompt.index(prompt[-1]) if at is None else at
    reply: Ids = []
    while len(reply) < draw.reply_length:
        piece = int(draw.rng.integers(1, _LONGEST_PIECE + 1))
        reply += prompt[at + 1 : at + 1 + piece]
        at = int(draw.rng.integers(-1, draw.prompt_length - 2))
    return reply[: draw.reply_length]


def _facts(prompt: Ids, reply: Ids) -> dict[tuple[object, ...], float]:
    """Return what a stream shows under lookup, with its worth: accept lengths, faults of the rule, transitions."""
    before, after = text_of(prompt), text_of(reply)
    facts: dict[tuple[object, ...], float] = {}
    for k in HIT_WIDTHS:
        lengths = accept_lengths(before, after, k)
        facts |= {(k, length): 20.0 for length in lengths}
        facts |= {(k, *pair): 1.0 for pair in pairwise(lengths)}
    for rule in Rule:
        if rule is not Rule.RIGHT and shows(before, after, HIT_WIDTHS[0], rule):
            facts[(rule,)] = 20.0
    return facts


def _utf8(draw: _Draw) -> tuple[Ids, Ids]:
    """Draw many, and take the reply in which round edges fall into characters most often."""
    prompt = draw.distinct(draw.prompt_length, NUM_ASCII)
    replies = [ids_of(utf8_reply(draw.rng, draw.reply_length)) for _ in range(_TEXT_DRAWS)]
    best = max(replies, key=lambda reply: _fewest_edges_inside(prompt, reply))
    if not _fewest_edges_inside(prompt, best):
        raise FabricationError(f"utf8 stream: no round edge in {draw.reply_length} bytes falls into a character; make it longer")
    return prompt, best


def _fewest_edges_inside(prompt: Ids, reply: Ids) -> int:
    return min(len(edges_inside(prompt, reply, k)) for k in HIT_WIDTHS)


def edges_inside(prompt: Ids, reply: Ids, k: int) -> Ids:
    """Return the places of a reply at which a lookup round with accepted drafts ends inside a character."""
    said = bytes_of_ids(tuple(reply))
    ends = [one.emitted + one.accepted for one in rounds(text_of(prompt), text_of(reply), k) if one.accepted]
    return [end for end in ends if end < len(said) and is_continuation(said[end])]


def _invalid(draw: _Draw) -> tuple[Ids, Ids]:
    return draw.distinct(draw.prompt_length, NUM_ASCII), ids_of(invalid_reply(draw.rng, draw.reply_length))


def _tie(draw: _Draw) -> tuple[Ids, Ids]:
    """Copy the prompt as a hit does, with the lower ids: where lookup proposes the higher one, both have the best score."""
    if not draw.ties:
        raise FabricationError("tie stream: head.ties=[] leaves nothing to tie; name two ids")
    lower = {high: low for low, high in draw.ties}
    best: tuple[int, Ids, Ids] = (0, [], [])
    for _ in range(_HIT_DRAWS):
        others = [token for token in draw.distinct(NUM_REPLY) if token not in lower and token not in lower.values()]
        prompt = others[: draw.prompt_length - 1 - len(lower)] + list(lower)
        prompt = [prompt[at] for at in draw.rng.permutation(len(prompt))]
        prompt.append(prompt[int(draw.rng.integers(0, len(prompt) - 1))])
        reply = [lower.get(token, token) for token in _copied(draw, prompt)]
        worth = min(_num_tied_drafts(prompt, reply, low, high) for low, high in draw.ties)
        best = max(best, (worth, prompt, reply), key=lambda one: one[0])
    if not best[0]:
        raise FabricationError("tie stream: lookup proposes no tied id where the other is said; use fewer ties")
    return best[1], best[2]


def _num_tied_drafts(prompt: Ids, reply: Ids, low: int, high: int) -> int:
    """Return how often the first draft that is not accepted is the higher id where the reply says the lower one."""
    steps = rounds(text_of(prompt), text_of(reply), HIT_WIDTHS[0])
    ends = [(one.drafts[one.accepted : one.accepted + 1], one.emitted + one.accepted) for one in steps]
    return sum(draft == chr(high) and reply[at] == low for draft, at in ends if at < len(reply))


_MAKERS: dict[Kind, Callable[[_Draw], tuple[Ids, Ids]]] = {
    Kind.MAIN: _main,
    Kind.REPEAT: _repeat,
    Kind.HIT: _hit,
    Kind.MISS: _miss,
    Kind.DECOY: _decoy,
    Kind.CONSTANT: _constant,
    Kind.BURST: _burst,
    Kind.UTF8: _utf8,
    Kind.INVALID: _invalid,
    Kind.TIE: _tie,
}
