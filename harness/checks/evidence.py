"""The recordings of a run, arranged for checks: cases by check and role, their references, their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from harness.checks.cached import ONLY_CUTS, resumptions
from harness.oracle.draft_model import ALONE
from harness.oracle.predict import Known, Prediction, predict
from harness.records.expectation import Ids
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Declared, Recording, Run

SERVED = 200


@dataclass(frozen=True, slots=True)
class Case:
    """One request to one start, with what came back."""

    start: Start
    request: Request
    answer: Answer
    facts: ArmFacts  # what the subject's description says of this start's arm


class Evidence:
    """Read-only view of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._recordings = {recording.start.id: recording for recording in run.recordings}
        self._predictions: dict[tuple[str, str], Prediction | None] = {}
        self._resumed: dict[str, dict[str, int | None]] = {}  # start -> request -> positions

    @property
    def declared(self) -> Declared:
        """What the subject's description declares."""
        return self.run.declared

    @cached_property
    def all_cases(self) -> tuple[Case, ...]:
        """Every request of the plan; one that was never asked has an answer without status."""
        return tuple(
            Case(start, request, self._answer(start, request), self.facts(start))
            for start in self.run.plan.starts
            for request in start.requests
        )

    def facts(self, start: Start) -> ArmFacts:
        """What the description says of a start's arm."""
        return self.declared.facts_of(start)

    def recording(self, start_id: str) -> Recording | None:
        """The recording of a start, None if it was never made."""
        return self._recordings.get(start_id)

    def cases(self, check: str, role: str | None = None) -> Iterator[Case]:
        """Yield the cases that this check reads, in the plan's order, of one role where one is given."""
        for case in self.all_cases:
            if check in case.request.checks and (role is None or role in case.request.roles):
                yield case

    def compared(self, check: str, role: str | None = None) -> Iterator[tuple[Case, Case]]:
        """Yield (case, reference case) for the cases of starts that have a reference which asks the same request."""
        for case in self.cases(check, role):
            reference = self.reference(case)
            if reference is not None:
                yield case, reference

    def reference(self, case: Case) -> Case | None:
        """The same request on the start that this one must equal; None for a reference itself."""
        if case.start.reference is None:
            return None
        return self.case(case.start.reference, case.request.id)

    def alike(self, case: Case) -> Case | None:
        """What the reference answered to the same question, asked under the same name or another; None where it was not asked."""
        return self.reference(case) or self._by_question.get((case.start.reference or "", _question(case.request)))

    def on_host(self, case: Case) -> Case | None:
        """The same request on the host's plain arm, for a start on a device; None where that is not asked it."""
        return self.case(case.start.host, case.request.id) if case.start.host is not None else None

    def case(self, start_id: str, request_id: str) -> Case | None:
        """One case by its names."""
        return self._by_name.get((start_id, request_id))

    def prediction(self, case: Case) -> Prediction | None:
        """What the path of this request must have been, from its prompt and the plain reply alone; None where no oracle knows.

        A start that must equal another is predicted from that other's answer, never from its own.
        """
        key = (case.start.id, case.request.id)
        if key not in self._predictions:
            resumed = self.resumed(case)
            self._predictions[key] = None if resumed is None else self._predict(case, resumed)
        return self._predictions[key]

    def resumed(self, case: Case) -> int | None:
        """How many positions a request must find in the prefix cache: 0 on a start without one; None where nobody knows."""
        if not case.facts.prefix_cache:
            return 0
        start_id = case.start.id
        if start_id not in self._resumed:
            cases = [one for one in self.all_cases if one.start.id == start_id]
            self._resumed[start_id] = resumptions(self, cases, self._predict_from_any)
        return self._resumed[start_id][case.request.id]

    def _predict(self, case: Case, resumed: int) -> Prediction | None:
        plain = case if case.start.reference is None else self.alike(case)
        return None if plain is None else self._predict_by(plain, case, resumed)

    def _predict_from_any(self, case: Case, resumed: int) -> Prediction | None:
        """Predict from the plain reply, or from the case's own where the plain arm was not asked."""
        return self._predict_by(self.alike(case) or case, case, resumed)

    def _predict_by(self, plain: Case, case: Case, resumed: int) -> Prediction | None:
        expectations, known = self.run.expectations, None
        if not self.declared.reports_path:
            known = Known(spoken=self._spoken, beyond=self._beyond(plain))
        return predict(case.start, case.request, plain.answer, self.declared, expectations, cached=resumed, known=known)

    def _beyond(self, plain: Case) -> Ids:
        """Return what follows a plain reply where a longer one to the same prompt was given under the same fields."""
        ids = (plain.answer.reply.ids if plain.answer.reply else None) or ()
        longest = self._longest.get((plain.start.id, _setting(plain.request)), ())
        return longest[len(ids) :] if longest[: len(ids)] == ids else ()

    @cached_property
    def _longest(self) -> dict[tuple[str, bytes], Ids]:
        """The longest reply of each start to each prompt under the fields that set its tokens."""
        longest: dict[tuple[str, bytes], Ids] = {}
        for case in self.all_cases:
            ids = (case.answer.reply.ids if case.answer.reply and case.answer.status == SERVED else None) or ()
            key = case.start.id, _setting(case.request)
            longest[key] = max(longest.get(key, ()), ids, key=len)
        return longest

    @cached_property
    def _spoken(self) -> dict[Ids, Ids]:
        """What the draft model says by itself after each sequence that it was asked for."""
        return {
            case.request.prompt_ids: case.answer.reply.ids
            for case in self.all_cases
            if case.start.id == ALONE and case.answer.reply is not None and case.answer.reply.ids is not None
        }

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Case]:
        return {(case.start.id, case.request.id): case for case in self.all_cases}

    @cached_property
    def _by_question(self) -> dict[tuple[str, bytes], Case]:
        first: dict[tuple[str, bytes], Case] = {}
        for case in self.all_cases:
            first.setdefault((case.start.id, _question(case.request)), case)
        return first

    def _answer(self, start: Start, request: Request) -> Answer:
        recording = self._recordings.get(start.id)
        answer = recording.answer(request.id) if recording else None
        return answer or Answer(request_id=request.id, status=None, failure="never asked")


def _setting(request: Request) -> bytes:
    """Return what sets the tokens of a reply but the last."""
    body = {name: value for name, value in (request.body or {}).items() if name not in ONLY_CUTS}
    return msgspec.json.encode((request.path, body), order="deterministic")


def _question(request: Request) -> bytes:
    """Return what a request asks, whoever asks it."""
    return msgspec.json.encode((request.path, request.body, request.raw, request.leave_after_chunks), order="deterministic")
