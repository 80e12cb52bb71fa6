"""What a check is, and the ledger in which it writes what it looked at and what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.need import Need
from harness.records.recording import Reply

if TYPE_CHECKING:
    from harness.checks.evidence import Case, Evidence


@dataclass(frozen=True, slots=True)
class Check:
    """A named law. `judge` reads the evidence and writes into the ledger; it talks to nobody."""

    id: str
    verdict: Verdict  # what a finding of this check means for the run
    law: str  # one sentence
    judge: Callable[[Evidence, Ledger], None]
    needs_trace: bool = False  # without tracing it is listed as not tested
    after: Callable[[Evidence, Sequence[CheckResult], Ledger], None] | None = None  # judges what the other checks found
    reads_order: bool = (
        False  # its law is about what came before or beside: its requests keep their order, and are repeated with it
    )
    needs: tuple[Need, ...] = ()  # what a subject must show for it; one that does not is listed as not tested


class Ledger:
    """What one check looked at, and what it found."""

    def __init__(self, check: Check, subject: str = "forward-serve") -> None:
        self._check = check
        self._subject = subject
        self._examined: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._notes: list[str] = []

    def examine(self, start_id: str) -> None:
        """Count one answer of this start as looked at."""
        self._examined[start_id] = self._examined.get(start_id, 0) + 1

    def fault(
        self,
        case: Case,
        message: str,
        *,
        want: Any = None,
        got: Any = None,
        first_difference: int | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """Write down one broken law at one request."""
        self._add(case.start.id, case.request.id, message, want, got, first_difference, verdict)

    def fault_of_start(
        self, start_id: str, message: str, *, want: Any = None, got: Any = None, verdict: Verdict | None = None
    ) -> None:
        """Write down one broken law that belongs to a start as a whole."""
        self._add(start_id, "", message, want, got, None, verdict)

    def blind(self, start_id: str, message: str, *, want: Any = None, got: Any = None) -> None:
        """Write down that a precondition did not hold, so that this check proves nothing there."""
        self._add(start_id, "", message, want, got, None, Verdict.BLIND)

    def note(self, text: str) -> None:
        """Say something that belongs into the report whatever was found."""
        self._notes.append(text)

    def precondition(self, start_id: str, holds: bool, message: str, *, want: Any = None, got: Any = None) -> None:
        """Write down BLIND unless `holds`; a start with a fault of its own says more by that, and nothing is added to it."""
        if not holds and not self.found_at(start_id):
            self.blind(start_id, message, want=want, got=got)

    def found_at(self, start_id: str) -> bool:
        """Whether anything is written down about this start."""
        return any(finding.start == start_id for finding in self._findings)

    def compare(self, case: Case, what: str, want: Any, got: Any) -> bool:
        """Compare for equality; a difference is a fault that names the first differing index of sequences."""
        if want == got and type(want) is type(got):
            return True
        self.fault(case, f"{what} differs", want=want, got=got, first_difference=first_difference(want, got))
        return False

    def reply(self, case: Case) -> Reply | None:
        """Return the reply of a request that must have been served; anything else is a fault, and None."""
        answer = case.answer
        if answer.status == 200 and answer.reply is not None and not answer.failure:
            return answer.reply
        got = answer.failure or answer.body or answer.status
        self.fault(case, f"not served (status {answer.status})", want="a reply", got=got)
        return None

    def result(self, tagged: dict[str, int]) -> CheckResult:
        """Close the ledger. `tagged` is how many answers each start holds for this check, references left out."""
        for start_id in sorted(tagged):
            if tagged[start_id] and not self._examined.get(start_id) and not self.found_at(start_id):
                self.blind(start_id, "examined nothing", want=f"{tagged[start_id]} answers", got=0)
        if not self._examined and not self._findings:
            self.blind("", "examined nothing: the plan asks nothing for this check")
        return CheckResult(
            check=self._check.id, examined=self._examined, findings=tuple(self._findings), notes=tuple(self._notes)
        )

    def _add(
        self,
        start_id: str,
        request_id: str,
        message: str,
        want: Any,
        got: Any,
        index: int | None,
        verdict: Verdict | None,
    ) -> None:
        repeat = f"draftproof run --subject {self._subject} --check {self._check.id}"
        finding = Finding(
            check=self._check.id,
            verdict=verdict or self._check.verdict,
            start=start_id,
            request=request_id,
            message=message,
            want=want,
            got=got,
            first_difference=index,
            repeat=repeat,
        )
        if finding not in self._findings:  # one reference that was not served is one finding, whoever is compared with it
            self._findings.append(finding)


def first_difference(want: Any, got: Any) -> int | None:
    """Return the first index at which two sequences differ (the shorter one's length if one is a prefix); else None."""
    if not isinstance(want, Sequence) or not isinstance(got, Sequence):
        return None
    for index, (left, right) in enumerate(zip(want, got, strict=False)):
        if left != right:
            return index
    return min(len(want), len(got)) if len(want) != len(got) else None
