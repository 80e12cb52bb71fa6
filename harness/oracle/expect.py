"""What a plan's answers must have been as far as it takes a model to know: sayings and drafts, from files and plain replies.

Sayings are the model's own: plain replies only tell which sequences are worth a forward. Drafts are computed on the sequences
that were really spoken. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from harness.oracle.abstain import abstains
from harness.oracle.container64 import read_container, read_facts, read_num_rows
from harness.oracle.loop import Said
from harness.oracle.pack64 import read_pack
from harness.oracle.packs import places_of
from harness.oracle.predict import DFLASH, said_by
from harness.oracle.qwen3_64 import Qwen3
from harness.oracle.reply import budget_of
from harness.oracle.speakers import Drafter, Speaker, longest
from harness.records.divergence import Gap
from harness.records.expectation import Drafting, Expectations, Ids, ModelFacts, Saying
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Declared, Recording, Run

SAID_FOR = ("oracle-reply", "logprobs-target")  # the checks whose requests a saying is computed for


class Locator(Protocol):
    """Finds the directories that a start names."""

    def model(self, name: str) -> Path:
        """Return the directory of a container or of one of its twins."""

    def pack(self, name: str) -> Path:
        """Return the directory of a draft pack or of one of its twins."""


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A greedy request with the plain reply that it must have."""

    start: Start
    request: Request
    said: Said

    @property
    def sequence(self) -> Ids:
        return self.request.prompt_ids + self.said.ids

    @property
    def places(self) -> range:
        """Where drafts may be asked for."""
        return places_of(self.request.prompt_ids, self.said)


class Oracle:
    """The models and packs of one fixture, read when they are first needed; what they said before is remembered.

    Not for several threads at once.
    """

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._models: dict[str, ModelFacts] = {}  # by the plan's name
        self._num_rows: dict[str, int] = {}  # by the plan's name: ids from here on have no embedding
        self._speakers: dict[str, Speaker] = {}  # by weights
        self._drafters: dict[tuple[str, str], Drafter] = {}  # by weights and pack

    @property
    def num_read(self) -> int:
        """Models and packs that were read because something was asked of them that was not known."""
        return sum(one.is_read for one in self._speakers.values()) + sum(one.is_read for one in self._drafters.values())

    def recall(self, before: Expectations) -> None:
        """Take for known what was computed before, by this oracle and from the same files."""
        speakers = {facts.weights: self._speaker(name) for name, facts in before.models.items()}
        names = {facts.weights: name for name, facts in before.models.items()}
        for saying in before.sayings:
            speakers[saying.weights].recall(saying.prompt_ids, saying.choices)
        for drafting in before.draftings:
            self._drafter(names[drafting.weights], drafting.pack).recall(drafting.ids, drafting.blocks)

    def completed(self, run: Run) -> Run:
        """Return a recorded run with its expectations, computed anew. Raises as `expectations`."""
        return msgspec.structs.replace(run, expectations=self.expectations(run.plan, run.recordings, run.declared))

    def expectations(self, plan: Plan, recordings: Sequence[Recording], declared: Declared) -> Expectations:
        """Compute what this plan's answers are held against. Raises FileFormatError for files that are not as they should be."""
        told = [
            (start, request) for start, request in _requests(plan) if set(SAID_FOR) & set(request.checks) and request.is_greedy
        ]
        spoken = list(_spoken(plan, recordings))
        names = dict.fromkeys([start.model for start, _ in told])
        names |= dict.fromkeys(one.start.model for one in spoken if _is_drafted(one, declared))
        spoken = [one for one in spoken if one.start.model in names and self._is_readable(one.start.model, one.sequence)]
        drafted = [one for one in spoken if _is_drafted(one, declared)]
        for name in names:
            self._speaker(name).guess([one.sequence for one in spoken if one.start.model == name])
        try:
            sayings = tuple(self._sayings(told))
            draftings = tuple(self._draftings(drafted))
        finally:
            self._forget_sequences()
        return Expectations(
            recipe=plan.recipe,
            models={name: self._facts(name) for name in names},
            block_sizes={one.pack: 1 + len(block.drafts) for one in draftings for block in one.blocks.values()},
            sayings=sayings,
            draftings=draftings,
        )

    def gaps(self, places: Sequence[tuple[str, Ids, int | None]]) -> list[Gap | None]:
        """Return how the greedy choice stands at each place: (model, sequence that it follows, id that was chosen there).

        None where the sequence holds an id that the model has no row for. Raises FileFormatError as `expectations`.
        """
        known = [self._is_readable(name, (*sequence, *(() if got is None else (got,)))) for name, sequence, got in places]
        by_model: dict[str, list[Ids]] = {}
        for (name, sequence, _), is_known in zip(places, known, strict=True):
            if is_known:
                by_model.setdefault(name, []).append(sequence)
        try:
            for name, sequences in by_model.items():
                self._speaker(name).guess(sequences)
                self._speaker(name).passed(sequences)
            return [
                self._speaker(name).gap(sequence, got) if is_known else None
                for (name, sequence, got), is_known in zip(places, known, strict=True)
            ]
        finally:
            self._forget_sequences()

    def _sayings(self, told: Sequence[tuple[Start, Request]]) -> Iterator[Saying]:
        """Yield what each model says after each prompt, as far as the largest budget wants it."""
        budgets: dict[str, dict[Ids, int]] = {}
        for start, request in told:
            facts = self._facts(start.model)
            self._speaker(start.model)  # one for all twins of these weights
            of_prompts = budgets.setdefault(facts.weights, {})
            of_prompts[request.prompt_ids] = max(of_prompts.get(request.prompt_ids, 0), budget_of(request, facts))
        for weights, of_prompts in budgets.items():
            said = self._speakers[weights].say(list(of_prompts.items()))
            for prompt, choices in zip(of_prompts, said, strict=True):
                yield Saying(weights, prompt, choices)

    def _draftings(self, drafted: Sequence[_Spoken]) -> Iterator[Drafting]:
        """Yield what each pack drafts on each sequence, wherever a walk over it may ask."""
        by_pack: dict[tuple[str, str], list[_Spoken]] = {}
        for one in drafted:
            assert one.start.pack is not None
            by_pack.setdefault((self._facts(one.start.model).weights, one.start.pack), []).append(one)
        for key, its_spoken in by_pack.items():
            drafter = self._drafter(its_spoken[0].start.model, key[1])
            prefixes = {one.sequence[: place + 1] for one in its_spoken for place in one.places}
            blocks = dict(zip(prefixes, drafter.draft(list(prefixes)), strict=True))
            for ids in longest([one.sequence for one in its_spoken]):
                places = (place for place in range(len(ids)) if ids[: place + 1] in blocks)
                yield Drafting(*key, ids, {place: blocks[ids[: place + 1]] for place in places})

    def _is_readable(self, model: str, sequence: Ids) -> bool:
        """Whether all ids of a sequence are in the model's table: a subject may say what it likes."""
        if model not in self._num_rows:
            self._num_rows[model] = read_num_rows(self._locator.model(model))
        return all(0 <= token < self._num_rows[model] for token in sequence)

    def _forget_sequences(self) -> None:
        for speaker in self._speakers.values():
            speaker.forget_sequences()
        for drafter in self._drafters.values():
            drafter.forget_sequences()

    def _facts(self, name: str) -> ModelFacts:
        if name not in self._models:
            self._models[name] = read_facts(self._locator.model(name))
        return self._models[name]

    def _speaker(self, name: str) -> Speaker:
        weights = self._facts(name).weights
        if weights not in self._speakers:
            self._speakers[weights] = Speaker(lambda: Qwen3(read_container(self._locator.model(name))))
        return self._speakers[weights]

    def _drafter(self, model: str, pack: str) -> Drafter:
        key = self._facts(model).weights, pack
        if key not in self._drafters:
            self._drafters[key] = Drafter(lambda: read_pack(self._locator.pack(pack)), self._speaker(model))
        return self._drafters[key]


def _requests(plan: Plan) -> Iterator[tuple[Start, Request]]:
    return ((start, request) for start in plan.starts for request in start.requests if request.prompt_ids)


def _spoken(plan: Plan, recordings: Sequence[Recording]) -> Iterator[_Spoken]:
    """Yield the greedy requests of a plan with their plain reply: a start's own, or that of the start it must equal."""
    by_request: dict[tuple[str, str], Answer] = {}
    by_question: dict[tuple[str, bytes], Answer] = {}
    for recording in recordings:
        asked = {request.id: _question(request) for request in recording.start.requests}
        for one in recording.answers:
            by_request[recording.start.id, one.request_id] = one
            by_question.setdefault((recording.start.id, asked[one.request_id]), one)
    for start, request in _requests(plan):
        if not request.is_greedy:
            continue
        name = start.reference or start.id
        answer = by_request.get((name, request.id)) or by_question.get((name, _question(request)))
        said = said_by(request, answer, start) if answer is not None else None
        if said is not None and said.ids:
            yield _Spoken(start, request, said)


def _question(request: Request) -> bytes:
    """Return what a request asks, under whatever name."""
    return msgspec.json.encode((request.path, request.body, request.raw, request.leave_after_chunks), order="deterministic")


def _is_drafted(one: _Spoken, declared: Declared) -> bool:
    facts = declared.facts_of(one.start)
    is_free = abstains(one.request, dumps_logits=facts.dumps_logits) is None
    return facts.oracle == DFLASH and facts.expect == "engaged" and one.start.pack is not None and is_free
