"""What further starts show of two replies that differ: repeats, histories, scores, nudges, plain's own band. It judges nothing.

It reads recordings by the roles of their requests and makes observations of them, for the rules of near_tie.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from harness.checks.evidence import Evidence
from harness.checks.scores import BrokenScoresError, Scored, read_logprobs
from harness.checks.statistical.damage import Pair, damage
from harness.checks.statistical.near_tie import Band, Observed, Scores, calibrated, top_gap
from harness.oracle.spelling import NUM_IDS, spell
from harness.records.difference import FOLLOWED, Compared, ids_of
from harness.records.plan import Request
from harness.records.recording import Answer, Recording, Run

# Roles of requests, as plans spell them.
AGAIN, AFTER, RESUMED, BESIDE = "again", "after", "resumed", "beside"
SCORED, FORCED, NUDGED, SWEPT, CALIBRATES = "scored", "forced", "nudged", "swept", "calibrates"
MOVES_CHOICES = ("logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty")

Ids = tuple[int, ...]


class Sight:
    """What the further starts of one pair of replies show."""

    def __init__(self, evidence: Evidence, pair: Compared, number: int | None) -> None:
        self._evidence = evidence
        self._pair = pair
        names = {"plain": ("plain-1", "plain-2"), "drafting": ("drafting-1", "drafting-2")}
        self._starts = {
            who: [evidence.recording(f"{FOLLOWED}-{number}/{name}") for name in parts] for who, parts in names.items()
        }

    def observed(self) -> Observed:
        """Return it all."""
        pair, declared = self._pair, self._evidence.declared
        counts = pair.answer.counts or pair.answer.usage_counts
        return Observed(
            want=pair.want,
            got=pair.got,
            index=pair.index,
            damage=self._damage(),
            num_drafted=counts.drafted if counts else None,
            plain_again=self._replies("plain", AGAIN),
            drafting_again=self._replies("drafting", AGAIN),
            histories={
                "after another request": self._replies("drafting", AFTER)[0],
                "after the same request": self._replies("drafting", RESUMED)[0],
                "beside another request": self._replies("drafting", BESIDE)[0],
            },
            remembers=declared.facts_of(pair.start).remembers,
            is_greedy=pair.request.is_greedy,
            top_gap=self._top_gap(),
            nudge_gap=self._nudge_gap(),
            forced=tuple(self._forced()),
        )

    def _damage(self) -> str:
        pair, run = self._pair, self._evidence.run
        assert pair.index is not None, "what is equal is not damaged"
        plain = self._evidence.case(pair.start.reference or "", pair.request.id)
        texts = [one.reply.text if one and one.reply else "" for one in (plain.answer if plain else None, pair.answer)]
        body = pair.request.body or {}
        wants_json = "json" in str(body.get("response_format", "")) or "json" in str(body.get("structured_outputs", ""))
        what = Pair(pair.want, pair.got, texts[0], texts[1], pair.request.prompt_ids, wants_json)
        return damage(what, pair.index, _others(run, pair), self._evidence.declared.vocab_bound)

    def _asked(self, who: str, role: str) -> Iterator[tuple[Request, Answer]]:
        recording = self._starts[who][0]
        if recording is not None:
            yield from _by_role(recording, role)

    def _replies(self, who: str, role: str) -> tuple[Ids | None, ...]:
        """Return the reply to the request of this role on each of an arm's starts that was asked it."""
        found = [ids_of(answer) for one in self._starts[who] if one is not None for _, answer in _by_role(one, role)]
        return tuple(found) or (None,)

    def _top_gap(self) -> float | None:
        index = self._pair.index
        for _, answer in self._asked("plain", SCORED):
            rows = _scores(answer)
            if index is not None and index < len(rows):
                return top_gap(dict(rows[index].alternatives))
        return None

    def _nudge_gap(self) -> float | None:
        """Return twice the least nudge with which plain says the other token: up of that one and down of its own.

        A draw from all ids comes by it, or past it, on its way through them in their order.
        """
        pair = self._pair
        assert pair.index is not None, "what is equal needs no nudge"
        if pair.is_cut:
            return None
        before, want, got = pair.want[: pair.index], pair.want[pair.index], pair.got[pair.index]
        own = (pair.request.body or {}).get("logit_bias") or {}
        sizes = []
        for role in (NUDGED, SWEPT):
            for request, answer in self._asked("plain", role):
                said = (ids_of(answer) or ())[: pair.index + 1]
                is_there = said[: pair.index] == before and len(said) > pair.index
                if is_there and (said[-1] == got or (role == SWEPT and (got - want) * (said[-1] - got) > 0)):
                    sizes.append(2 * abs((request.body or {})["logit_bias"][str(got)] - own.get(str(got), 0.0)))
        return min(sizes, default=None)

    def _forced(self) -> Iterator[float | None]:
        """Yield how far below what plain may choose each token of the reply lies; nothing where other fields move choices."""
        body = self._pair.request.body or {}
        reach = 1 if self._pair.request.is_greedy else int(body.get("top_k") or 0)
        if not reach or any(body.get(name) for name in MOVES_CHOICES):
            return
        for token, (_, answer) in zip(self._pair.got, self._asked("plain", FORCED), strict=False):
            rows = _scores(answer)
            if ids_of(answer) == (token,):
                yield 0.0
            elif not rows or token not in self._texts:
                yield None
            else:
                yield _below(dict(rows[0].alternatives), self._texts[token], reach)

    @cached_property
    def _texts(self) -> Mapping[int, str]:
        """The texts of ids: as plain's scored replies tell them, and those of the fabricated tokenizer."""
        texts = {token: spell((token,)) for token in range(NUM_IDS)}
        for role in (SCORED, FORCED, NUDGED, SWEPT):
            for _, answer in self._asked("plain", role):
                texts.update(zip(ids_of(answer) or (), (one.token for one in _scores(answer)), strict=False))
        return texts


def _below(scores: Scores, text: str, reach: int) -> float:
    """Return how far a token lies below the last one that may be chosen; infinite where it is not even among those shown."""
    best = sorted(scores.values(), reverse=True)
    return max(best[min(reach, len(best)) - 1] - scores.get(text, -math.inf), 0.0)


def band_of_plain(run: Run, reference: str) -> Band | None:
    """Return how far scores move between replies scored as they came and each token scored behind a whole prompt."""
    recording = next((one for one in run.recordings if one.start.id == f"{FOLLOWED}-band/{reference}"), None)
    if recording is None:
        return None
    asked = list(_by_role(recording, CALIBRATES))
    whole = {request.prompt_ids: _scores(answer) for request, answer in asked if request.max_tokens == 1}
    rows = []
    for request, answer in asked:
        ids = ids_of(answer) or ()
        for index, row in enumerate(_scores(answer)[: len(ids)] if request.max_tokens > 1 else ()):
            again = whole.get(request.prompt_ids + ids[:index])
            if again:
                rows.append((dict(row.alternatives), dict(again[0].alternatives)))
    return calibrated(rows)


def _by_role(recording: Recording, role: str) -> Iterator[tuple[Request, Answer]]:
    for request, answer in zip(recording.start.requests, recording.answers, strict=True):
        if role in request.roles:
            yield request, answer


def _scores(answer: Answer) -> Sequence[Scored]:
    """Return the scores of an answer; none where they are broken, which another law finds."""
    try:
        return read_logprobs(answer.reply.logprobs) if answer.reply is not None else ()
    except BrokenScoresError:
        return ()


def _others(run: Run, pair: Compared) -> Iterable[Ids]:
    """Yield prompts and replies of requests with other prompts to the same process."""
    recording = next(one for one in run.recordings if one.start.id == pair.start.id)
    for request, answer in zip(recording.start.requests, recording.answers, strict=True):
        if request.prompt_ids != pair.request.prompt_ids:
            yield request.prompt_ids
            yield ids_of(answer) or ()
