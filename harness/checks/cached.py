"""What each request of a start with a prefix cache must resume from, told in the order in which the start was asked.

It reads what the requests before it left: by prediction where they were served, by their own counts where they broke off. Where
that cannot be known nothing is said, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness.oracle.predict import Prediction
from harness.oracle.resume import NOTHING, Left, num_prefill_passes, num_prefilled, ran
from harness.records.plan import Request

if TYPE_CHECKING:
    from harness.checks.evidence import Case, Evidence

FAILED = 500
LEFT_BY_CLIENT = "left"  # the failure of an answer whose client left
ONLY_CUTS = frozenset({"max_tokens", "stop", "stream", "stream_options", "return_spec"})  # fields that set no token but the last

Predict = Callable[["Case", int], Prediction | None]


def resumptions(evidence: Evidence, cases: list[Case], predict: Predict) -> dict[str, int | None]:
    """Return, by request id, the positions that each of one start's requests must find in the cache; None where nobody knows.

    `cases` are all of the start's; `predict` gives the prediction of a case that resumes from so many positions.
    """
    found: dict[str, int | None] = {}
    cache = _Cache(evidence, predict)
    for case in cases:
        found[case.request.id] = cache.resumed(case.request)
        if _took_the_engine(case):
            cache.run(case, found[case.request.id])
    return found


def _took_the_engine(case: Case) -> bool:
    """Whether a request may have reached the engine: all but those that are refused, and those that generate nothing."""
    status = case.answer.status
    return bool(case.request.prompt_ids) and (status is None or status == 200 or status >= FAILED)


class _Cache:
    """What is left on one start, and how many passes were made on it; None where that is not known."""

    def __init__(self, evidence: Evidence, predict: Predict) -> None:
        self._evidence = evidence
        self._predict = predict
        self._left: Left | None = NOTHING
        self._passes: int | None = 0

    def resumed(self, request: Request) -> int | None:
        if not request.prompt_ids:
            return 0
        return None if self._left is None else self._left.resumed(request.prompt_ids)

    def run(self, case: Case, resumed: int | None) -> None:
        """Take note of what a request leaves."""
        is_served = case.answer.status == 200 and not case.answer.failure
        self._left = self._by_served(case, resumed) if is_served else self._by_broken(case, resumed)
        self._passes = self._passes_after(case, resumed)

    def _by_served(self, case: Case, resumed: int | None) -> Left | None:
        prediction = None if resumed is None else self._predict(case, resumed)
        told = self._evidence.alike(case) or case
        if told.answer.reply is None or told.answer.reply.ids is None:
            return None
        return ran(case.request.prompt_ids + told.answer.reply.ids, prediction.last if prediction else None)

    def _by_broken(self, case: Case, resumed: int | None) -> Left | None:
        """Return what a failed request, or one whose client left, has committed: by the passes that it counts."""
        counts, prompt = case.answer.counts, case.request.prompt_ids
        has_failed = case.answer.status == FAILED
        if counts is None or counts.num_passes is None or not (has_failed or case.answer.failure == LEFT_BY_CLIENT):
            return None
        if has_failed and counts.tokens == 0:
            return self._by_prefill(case, resumed)
        num_positions = len(prompt) + counts.num_passes + counts.accepted
        return Left(prompt + _known_reply(self._evidence, case), num_positions, num_positions)

    def _by_prefill(self, case: Case, resumed: int | None) -> Left | None:
        """Return the rows of the passes that were finished before the one that failed by hand."""
        fail_pass, prompt = case.start.parameters.get("fail_pass"), case.request.prompt_ids
        if resumed is None or self._passes is None or not isinstance(fail_pass, int):
            return None
        num_passes = fail_pass - self._passes - 1
        num_positions = num_prefilled(len(prompt), resumed, num_passes, self._width(case))
        return Left(prompt, num_positions, num_positions)

    def _passes_after(self, case: Case, resumed: int | None) -> int | None:
        counts = case.answer.counts
        if self._passes is None or resumed is None or counts is None or counts.num_passes is None:
            return None
        prefill = num_prefill_passes(len(case.request.prompt_ids), resumed, self._width(case))
        return self._passes + prefill + counts.num_passes

    def _width(self, case: Case) -> int:
        return self._evidence.declared.width_of(case.start.arm)


def _known_reply(evidence: Evidence, case: Case) -> tuple[int, ...]:
    """Return the longest reply of the plain arm to the same prompt under the same fields: one that breaks off begins so."""
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


def _sets_tokens(request: Request) -> Mapping[str, Any]:
    return {name: value for name, value in (request.body or {}).items() if name not in ONLY_CUTS}
