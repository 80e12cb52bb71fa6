"""What holds of the file of logits that an arm leaves for an answer: a row for each counted token, byte for byte as plain's."""

from __future__ import annotations

from harness.checks.check import Ledger, first_difference
from harness.checks.evidence import Case
from harness.records.recording import Dump


def compare_dumps(ledger: Ledger, case: Case, reference: Case) -> None:
    """Hold the file that a case's arm leaves, where it leaves one, and against the reference's where that leaves one too."""
    if not case.facts.dumps_logits or case.answer.reply is None:
        return
    want, got = reference.answer.dump, case.answer.dump
    if got is None:
        ledger.fault(case, "no file of logits came with the answer", want="a row for each token", got=None)
        return
    num_rows = got.shape[0] if got.shape else 0
    if not ledger.compare(case, "number of rows in the file of logits", case.answer.reply.completion_tokens, num_rows):
        return
    if want is not None and want.sha256 != got.sha256:
        message = f"the file of logits is not the plain arm's: {_difference(want, got)}"
        ledger.fault(case, message, want=_head_of(want), got=_head_of(got))


def _difference(want: Dump, got: Dump) -> str:
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        return "its values have another type or shape"
    place = first_difference(want.content, got.content)
    if place is None:
        return "its header differs"
    return f"they differ first in row {place * want.shape[0] // len(want.content)}"


def _head_of(dump: Dump) -> str:
    return f"{dump.dtype} {list(dump.shape)} sha256={dump.sha256}"
