"""What the ideal engine's base says and its pack drafts, and the expectations that an oracle has of both. For tests only.

Drafts are a function of the sequence that they follow, as a pack's are: of its length how many are right, of what is prescribed
behind it which those are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from harness.oracle.speakers import longest
from harness.records.expectation import Block, Choice, Drafting, Expectations, ModelFacts, Saying
from harness.records.fixture import Stream
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Run

NEVER_SAID = 93  # the script's tokens are below 90
PACK_K = 7
CONTEXT = 1024
WEIGHTS = "of-tiny"  # all models of the plan are twins of one
SURE = 0.5  # a margin that no rounding reaches


@dataclass(frozen=True, slots=True)
class Script:
    """What the base says: the prescribed reply after a stream's prompt, and something deterministic everywhere else."""

    streams: tuple[Stream, ...] = ()

    def token(self, prompt: tuple[int, ...], index: int, seed: int | None = None) -> int:
        """Return the token at `index` of the reply to a prompt; a seed is that of a sampled request."""
        if seed is not None:
            return (sum(prompt) * 7 + seed * 31 + index * index * 13 + index * 5) % 90
        reply = self.prescribed(prompt)
        if reply:
            return reply[index] if index < len(reply) else reply[(index * 7 + 3) % len(reply)]
        return (sum(prompt) + index * index * 11 + index * 3) % 90

    def prescribed(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        """Return the reply that a stream prescribes after a prompt; () where none does."""
        return next((stream.reply_ids for stream in self.streams if stream.prompt_ids == prompt), ())

    def drafts(self, prompt: tuple[int, ...], num_emitted: int, pack: str = "mixed") -> tuple[int, ...]:
        """Return what a pack drafts behind the last of so many tokens of the reply: all of it right, none, or some."""
        if pack == "never":
            return (NEVER_SAID,) * PACK_K
        last = self.token(prompt, num_emitted - 1)
        num_right = PACK_K if pack == "always" else ((len(prompt) + num_emitted) * 7 + last) % 11 % (PACK_K + 1)
        reply = self.prescribed(prompt)
        num_right = min(num_right, len(reply) - num_emitted) if reply else num_right
        return tuple(
            self.token(prompt, num_emitted + slot) if slot < num_right else (last + slot + 1) % 90 for slot in range(PACK_K)
        )


def with_expectations(run: Run, script: Script) -> Run:
    """Return a run with the expectations of a base that says what the script says."""
    models = {start.model: _facts(start.model) for start in run.plan.starts}
    packs = {start.pack for start in run.plan.starts if start.pack}
    expectations = Expectations(
        recipe=run.plan.recipe,
        models=models,
        block_sizes=dict.fromkeys(packs, PACK_K + 1),
        sayings=tuple(_sayings(run.plan, script)),
        draftings=tuple(drafting for pack in sorted(packs) for drafting in _draftings(run.plan, pack, script)),
    )
    return msgspec.structs.replace(run, expectations=expectations)


def _facts(model: str) -> ModelFacts:
    end_tokens: tuple[int, ...] = (185, 187)
    context = CONTEXT
    for part in model.split("+"):
        if part.startswith("eos="):
            end_tokens = (*map(int, part.removeprefix("eos=").split(".")), *end_tokens)
        if part.startswith("context="):
            context = int(part.removeprefix("context="))
    return ModelFacts(WEIGHTS, end_tokens, context)


def _sayings(plan: Plan, script: Script) -> Iterator[Saying]:
    budgets: dict[tuple[int, ...], int] = {}
    for _, request in _greedy(plan):
        if "oracle-reply" in request.checks:
            budgets[request.prompt_ids] = max(request.max_tokens, budgets.get(request.prompt_ids, 0))
    for prompt, budget in budgets.items():
        is_tied = any(stream.role == "tie" and stream.prompt_ids == prompt for stream in script.streams)
        yield Saying(WEIGHTS, prompt, tuple(Choice(script.token(prompt, at), SURE, is_tied, True) for at in range(budget)))


def _draftings(plan: Plan, pack: str, script: Script) -> Iterator[Drafting]:
    blocks: dict[tuple[int, ...], Block] = {}
    for start, request in _greedy(plan):
        if start.pack != pack:
            continue
        ids = request.prompt_ids
        for emitted in range(1, min(request.max_tokens, CONTEXT - len(request.prompt_ids)) + 1):
            ids = (*ids, script.token(request.prompt_ids, emitted - 1))
            drafts = script.drafts(request.prompt_ids, emitted, pack)
            assert blocks.setdefault(ids, Block(drafts, (SURE,) * PACK_K)).drafts == drafts, "not a function of the sequence"
    for ids in longest(list(blocks)):
        places = {place: blocks[ids[: place + 1]] for place in range(len(ids)) if ids[: place + 1] in blocks}
        yield Drafting(WEIGHTS, pack, ids, places)


def _greedy(plan: Plan) -> Iterator[tuple[Start, Request]]:
    for start in plan.starts:
        for request in start.requests:
            if request.prompt_ids and request.is_greedy and request.expect == 200:
                yield start, request
