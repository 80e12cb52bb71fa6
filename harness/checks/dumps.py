"""What holds of the file of logits that an arm leaves for an answer: a row for each counted token, byte for byte as plain's.

The rows are the model's own. What a request wants changed in them is computed here anew, from the dialect's definitions: so the
file shows whether bias and penalties did what they say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.checks.check import Ledger, first_difference
from harness.checks.evidence import Case, Evidence
from harness.checks.scores import BrokenScoresError, rows_of
from harness.records.plan import Request
from harness.records.recording import Dump


def compare_dumps(evidence: Evidence, ledger: Ledger, case: Case, reference: Case) -> None:
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
        return
    _compare_choices(evidence, ledger, case, got)


def _compare_choices(evidence: Evidence, ledger: Ledger, case: Case, dump: Dump) -> None:
    """Hold each greedy token against the best of its row, as the request wants it changed; grammars are another law's."""
    body, reply = case.request.body or {}, case.answer.reply
    is_constrained = any(body.get(name) is not None for name in ("response_format", "structured_outputs"))
    if reply is None or reply.ids is None or is_constrained or not case.request.is_greedy:
        return
    try:
        rows = rows_of(dump)
    except BrokenScoresError as error:
        ledger.fault(case, str(error))
        return
    for index, (token, row) in enumerate(zip(reply.ids, rows, strict=True)):
        scores = changed(row[: evidence.declared.vocab_bound], case.request, reply.ids[:index])
        best = max(range(len(scores)), key=lambda one: (scores[one], -one))
        if best != token:
            message = f"token {index} is not the best of its row in the file of logits, bias and penalties applied"
            ledger.fault(case, message, want=best, got=token, first_difference=index)
            return


def changed(row: Sequence[float], request: Request, reply_ids: Sequence[int]) -> list[float]:
    """Return a row of logits as a request wants it changed, after so much of its reply.

    In vLLM's order: the bias is added; what was seen in prompt or reply is divided by the repetition penalty where it is
    positive, else multiplied; the frequency penalty is taken off for each time that a token came in the reply, presence once.
    """
    body = request.body or {}
    scores, times = list(row), Counter(reply_ids)
    for token, value in (body.get("logit_bias") or {}).items():
        scores[int(token)] += value
    repetition = body.get("repetition_penalty") or 1.0
    for token in {*request.prompt_ids, *reply_ids}:
        scores[token] = scores[token] / repetition if scores[token] > 0 else scores[token] * repetition
    for token, count in times.items():
        scores[token] -= (body.get("frequency_penalty") or 0.0) * count + (body.get("presence_penalty") or 0.0)
    return scores


def _difference(want: Dump, got: Dump) -> str:
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        return "its values have another type or shape"
    place = first_difference(want.content, got.content)
    if place is None:
        return "its header differs"
    return f"they differ first in row {place * want.shape[0] // len(want.content)}"


def _head_of(dump: Dump) -> str:
    return f"{dump.dtype} {list(dump.shape)} sha256={dump.sha256}"
