"""A small engine whose scores move with the shape of a batch, as real ones do; faults of real engines are planted by name. For tests only.

Its scores hang on all tokens so far. Plain decoding runs rows one by one, a prompt is run whole, and an arm that drafts verifies blocks:
three shapes, each with roundings of its own. What is asked of it are plans; what it gives are runs.
"""

from __future__ import annotations

import enum
import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.oracle.spelling import spell
from harness.plans.near_ties import follow_up
from harness.plans.requests import completion
from harness.plans.starts import LOOKUP, PLAIN
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Recording, Reply, Run, Trace
from tests.harness.checks.ideal import fixture

Ids = tuple[int, ...]
SIZE = 40  # ids that may be chosen
ROUNDING = 1e-3  # how far a batch's shape moves a score
DECLARED = Declared(
    {"plain": ArmFacts(), "lookup": ArmFacts("ngram")},
    certified=False,
    capabilities={"none": {}, "ngram": {"temperature": "engaged"}},
    vocab_bound=94,
)


class Fault(enum.Enum):
    """What an arm that drafts does wrong."""

    RUNNER_UP = "it takes the second best where the choice leads by little"
    WRONG_ROW = "it reads the row before"
    DROPPED = "it drops a token"
    DOUBLED = "it says a token twice"
    FOREIGN = "it goes on with another request's reply"
    STALE = "its choice hangs on the request before"
    RANDOM = "its choice differs from process to process"
    UNDRAFTED = "it drafts nothing"
    CUT = "it ends its reply early"


@dataclass(frozen=True, slots=True)
class Tie:
    """A place at which the best two scores are so close."""

    index: int  # of the reply's token
    gap: float
    flips: bool = True  # a verify pass sees the second one first


@dataclass(slots=True)
class Engine:
    """Answers plans. `ties` are by request id of the plan that was asked first."""

    tie: Tie | None = None
    faults: frozenset[Fault] = frozenset()
    num_starts: int = 0

    def run(self, plan: Plan, declared: Declared = DECLARED) -> Run:
        """Answer a plan, and whatever it calls for further."""
        recordings = tuple(map(self.record, plan.starts))
        further = follow_up(plan, recordings, declared)
        whole = msgspec.structs.replace(plan, starts=(*plan.starts, *further))
        return Run(whole, "toy", declared, (*recordings, *map(self.record, further)))

    def record(self, start: Start) -> Recording:
        """Answer all that one start is asked."""
        self.num_starts += 1
        answers: list[Answer] = []
        for number, request in enumerate(start.requests):
            answers.append(self._answer(start, request, number, answers))
        return Recording("toy", start, tuple(answers), Trace(True), (), None)

    def _answer(self, start: Start, request: Request, number: int, before: Sequence[Answer]) -> Answer:
        shape = "verify" if start.arm == "lookup" else "row"
        ids: Ids = ()
        rows = []
        for index in range(request.max_tokens):
            context = request.prompt_ids + ids
            row = self._row(context, shape if index or shape == "verify" else "whole")
            rows.append(row)
            ids += (self._choose(request, row, index, number) if shape == "row" else self._drafted(request, row, index, number),)
        if shape == "verify" and request.max_tokens > 1:
            ids = self._damaged(request, ids, before)
        drafted = 0 if shape == "row" or Fault.UNDRAFTED in self.faults else 4
        counts = Counts("spec" if drafted else "plain", None, None, drafted, min(drafted, 1), None, len(ids), None, None, None)
        reply = Reply(
            "", spell(ids), ids, "length", None, len(request.prompt_ids), len(ids), logprobs=_scores(request, ids, rows)
        )
        return Answer(request.id, 200, reply=reply, counts=counts)

    def _drafted(self, request: Request, row: Sequence[float], index: int, number: int) -> int:
        chosen = self._choose(request, row, index, number)
        if self.tie is None or index != self.tie.index or request.prompt_ids[-3:] != TIED[-3:]:
            return chosen
        second = sorted(range(SIZE), key=lambda token: -row[token])[1]
        if Fault.RUNNER_UP in self.faults:
            return second
        if Fault.STALE in self.faults and number:
            return second
        return second if Fault.RANDOM in self.faults and self.num_starts % 4 == 2 else chosen

    def _choose(self, request: Request, row: Sequence[float], index: int, _number: int) -> int:
        body = request.body or {}
        scores = list(row)
        for token, bias in (body.get("logit_bias") or {}).items():
            if int(token) < SIZE:
                scores[int(token)] += bias
        best = sorted(range(SIZE), key=lambda token: (-scores[token], token))
        if request.is_greedy:
            return best[0]
        kept = best[: body["top_k"]] if "top_k" in body else list(range(SIZE))  # drawn from in this order
        weights = [math.exp((scores[token] - scores[best[0]]) / body["temperature"]) for token in kept]
        drawn = random.Random(repr((body["seed"], index))).random() * math.fsum(weights)
        for token, weight in zip(kept, weights, strict=True):
            drawn -= weight
            if drawn < 0:
                return token
        return kept[-1]

    def _row(self, context: Ids, shape: str) -> list[float]:
        noise = random.Random(repr((context, shape)))
        row = [score + ROUNDING * noise.uniform(-1, 1) for score in _exact(context)]
        tie = self.tie
        if tie is not None and context[: len(TIED)] == TIED and len(context) == len(TIED) + tie.index:
            first, second = sorted(range(SIZE), key=lambda token: -row[token])[:2]
            row[second] = row[first] - tie.gap
            if shape == "verify" and tie.flips:
                row[first], row[second] = row[second], row[first]
        return row

    def _damaged(self, request: Request, ids: Ids, before: Sequence[Answer]) -> Ids:
        at = len(ids) // 3
        first = before[0].reply.ids if before and before[0].reply and before[0].reply.ids else ids
        damaged = {
            Fault.CUT: ids[:at],
            Fault.DROPPED: (*ids[:at], *ids[at + 1 :], 1),
            Fault.DOUBLED: (*ids[:at], ids[at - 1], *ids[at:-1]),
            Fault.FOREIGN: (*ids[:at], *first[at:]),
            Fault.WRONG_ROW: (*ids[:at], ids[at - 1], *ids[at + 1 :]),
        }
        found = [damaged[fault] for fault in self.faults if fault in damaged]
        return found[0] if found and request.prompt_ids == TIED else ids


@functools.cache
def _exact(context: Ids) -> tuple[float, ...]:
    """Return scores; the best one leads by half at the least, so that nothing flips but where a tie is planted."""
    numbers = random.Random(repr(context))
    row = [numbers.gauss(0, 1) for _ in range(SIZE)]
    best = max(range(SIZE), key=row.__getitem__)
    row[best] += 0.5
    return tuple(row)


def _scores(request: Request, ids: Ids, rows: Sequence[Sequence[float]]) -> Any:
    asked = (request.body or {}).get("logprobs")
    if not asked:
        return None
    tables = []
    for row in rows:
        total = math.log(math.fsum(math.exp(score) for score in row))
        best = sorted(range(SIZE), key=lambda token: -row[token])[:asked]
        tables.append({spell((token,)): row[token] - total for token in best})
    texts = [spell((token,)) for token in ids]
    return {
        "tokens": texts,
        "token_logprobs": [table.get(text, -9.0) for table, text in zip(tables, texts, strict=True)],
        "top_logprobs": tables,
        "text_offset": list(range(len(texts))),
    }


TIED: Ids = fixture().stream("hit-1").prompt_ids
OTHERS = ("main-1", "main-2", "miss-1")
BUDGET = 18
Change = Callable[[Request], Request]


def asked(**fields: Any) -> Request:
    """Return the request at whose reply ties and faults are planted."""
    return completion(fixture().stream("hit-1"), BUDGET, "same-reply", **fields)


def plan_of(*requests: Request) -> Plan:
    """Return a plan that asks plain and an arm that drafts for these, behind some others."""
    others = tuple(completion(fixture().stream(name), BUDGET, "same-reply") for name in OTHERS)
    starts = tuple(msgspec.structs.replace(start, requests=(*others, *requests)) for start in (PLAIN, LOOKUP))
    return Plan(Tier.GATE, "tiny@test", starts, ("same-reply", "near-ties"))
