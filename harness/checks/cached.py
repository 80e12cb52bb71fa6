"""What each request of a start with a prefix cache must resume from, told in the order in which the start was asked.

It reads what the requests before it left: by prediction where they were served, by their own counts where they broke off. Where
that cannot be known nothing is said, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.oracle.predict import Prediction
from harness.oracle.resume import NOTHING, Left, num_prefill_passes, num_prefilled
from harness.records.plan import Request

if TYPE_CHECKING:
    from harness.checks.evidence import Case, Evidence

FAILED = 500
LEFT_BY_CLIENT = "left"  # the failure of an answer whose client left
_ENDS_ALIKE = frozenset({"max_tokens", "stop", "stream", "stream_options", "return_spec"})  # fields that only cut a reply

Predict = Callable[["Case", int], Prediction | None]


def resumptions(evidence: Evidence, cases: list[Case], predict: Predict) -> dict[str, int | None]:
    """Return, by request id, the positions that each of one start's requests must find in the cache; None where nobody knows.

    `cases` are all of the start's; `predict` gives the prediction of a case that resumes from so many positions.
    """
    resumed_by_id: dict[str, int | None] = {}
    cache = _Cache(evidence, predict)
    for case in cases:
        resumed_by_id[case.request.id] = resumed = cache.resumed(case.request)
        if _took_the_engine(case):
            cache.run(case, resumed)
    return resumed_by_id


def _took_the_engine(case: Case) -> bool:
    """Whether a request reached the engine: it was served, it failed inside, or its client left. A refused one did not."""
    answer = case.answer
    if not case.request.prompt_ids:
        return False
    return answer.status is None or answer.status == 200 or answer.status >= FAILED


class _Cache:
    """What is left on one start, and how many passes were made on it; None once that is not known."""

    def __init__(self, evidence: Evidence, predict: Predict) -> None:
        self._evidence = evidence
        self._predict = predict
        self._left: Left | None = NOTHING
        self._passes: int | None = 0

    def resumed(self, request: Request) -> int | None:
        if self._left is None:
            return None
        return self._left.resumed(request.prompt_ids) if request.prompt_ids else 0

    def run(self, case: Case, resumed: int | None) -> None:
        """Take note of what a request leaves."""
        self._left = None
        if resumed is not None:
            is_served = case.answer.status == 200 and not case.answer.failure
            self._left = self._left_by_served(case, resumed) if is_served else self._left_by_broken(case, resumed)
        self._passes = self._passes_after(case, resumed)

    def _left_by_served(self, case: Case, resumed: int) -> Left | None:
        prediction = self._predict(case, resumed)
        plain = self._evidence.reference(case) or case
        if prediction is None or prediction.last is None or plain.answer.reply is None:
            return None
        ids = case.request.prompt_ids + (plain.answer.reply.ids or ())
        return Left(ids, len(ids) - prediction.last)

    def _left_by_broken(self, case: Case, resumed: int) -> Left | None:
        """Return what a failed request or one whose client left has committed, by the passes that it counts."""
        counts, prompt = case.answer.counts, case.request.prompt_ids
        if counts is None or not (case.answer.status == FAILED or case.answer.failure == LEFT_BY_CLIENT):
            return None
        if counts.tokens == 0 and case.answer.status == FAILED:
            return self._left_by_prefill(case, resumed)
        num_run = counts.rounds + counts.plain + counts.accepted
        return Left(prompt + known_reply(self._evidence, case), len(prompt) + num_run)

    def _left_by_prefill(self, case: Case, resumed: int) -> Left | None:
        """Return the rows of the passes that were finished before the one that failed by hand."""
        fail_pass = case.start.parameters.get("fail_pass")
        if self._passes is None or not isinstance(fail_pass, int):
            return None
        prompt = case.request.prompt_ids
        num_finished = fail_pass - self._passes - 1
        return Left(prompt, num_prefilled(prompt, resumed, num_finished, self._width(case)))

    def _passes_after(self, case: Case, resumed: int | None) -> int | None:
        counts = case.answer.counts
        if self._passes is None or resumed is None or counts is None:
            return None
        prefill = num_prefill_passes(len(case.request.prompt_ids), resumed, self._width(case))
        return self._passes + prefill + counts.rounds + counts.plain

    def _width(self, case: Case) -> int:
        return self._evidence.declared.width_of(case.start.arm)


def known_reply(evidence: Evidence, case: Case) -> tuple[int, ...]:
    """Return the longest reply that the plain arm gave to the same prompt under the same fields: one that breaks off begins so."""
    replies = [
        other.answer.reply.ids or ()
        for other in evidence.all_cases
        if other.start.id == case.start.reference
        and other.request.prompt_ids == case.request.prompt_ids
        and other.answer.status == 200
        and other.answer.reply is not None
        and _sets_tokens(other.request) == _sets_tokens(case.request)
    ]
    return max(replies, key=len, default=())


def _sets_tokens(request: Request) -> Mapping[str, object]:
    return {name: value for name, value in (request.body or {}).items() if name not in _ENDS_ALIKE}
