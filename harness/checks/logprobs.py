"""The law on logprobs: they are the target's, at the row that chose the token, whatever else was asked and in both modes.

A reply's scores are held against plain requests that ask for one token after each of its beginnings, against the file of logits
where an arm leaves one, and against themselves. It knows nothing of how they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, equal_to, served, starts_of
from harness.checks.evidence import Case, Evidence
from harness.checks.scores import BrokenScoresError, Scored, as_float32, ids_by_text, log_softmax, read_logprobs, rows_of
from harness.checks.statistical.bands import agree, band_of, near_float64
from harness.oracle.spelling import NUM_IDS, spell
from harness.records.finding import Verdict
from harness.records.recording import Reply

CHECK = "logprobs-target"
RESCORES = "rescores"  # role of a request that asks for one token, to score one position of a reply
RESCORED, STREAMED, FROM_ROWS = "every position rescored", "streamed beside unstreamed", "held against the rows"
COMPUTED = "held against a float64 forward"


def _judge_logprobs(evidence: Evidence, ledger: Ledger) -> None:
    scorers = {case.request.prompt_ids: case for case in evidence.cases(CHECK, RESCORES)}
    for start_id, cases in starts_of(evidence, CHECK).items():
        unstreamed = {asked_of(case): case for case in cases if not case.request.streams}
        wanted = {FROM_ROWS} if cases[0].facts.dumps_logits else {RESCORED}
        wanted |= {STREAMED for case in cases if case.request.streams}
        wanted |= {COMPUTED} if cases[0].start.reference is None and _knows_logprobs(evidence) else set()
        shown: set[str] = set()
        for case in cases:
            ledger.examine(start_id)
            scored = _scores_of(evidence, ledger, case)
            if scored is None:
                continue
            _compare_with_plain(evidence, ledger, case)
            shown |= _rescore(evidence, ledger, case, scored, scorers)
            shown |= _compare_rows(evidence, ledger, case, scored)
            shown |= _compare_with_float64(evidence, ledger, case, scored)
            if case.request.streams:
                shown |= _compare_modes(evidence, ledger, case, unstreamed.get(asked_of(case, "stream", "stream_options")))
        for feature in sorted(wanted):
            ledger.precondition(start_id, feature in shown, f"no reply was {feature}", want=feature, got=sorted(shown))


def _scores_of(evidence: Evidence, ledger: Ledger, case: Case) -> tuple[Scored, ...] | None:
    """Return a reply's scores, once they hold by themselves; else a fault, and None."""
    reply = served(evidence, ledger, case)
    if reply is None:
        return None
    try:
        scored = read_logprobs(reply.logprobs)
    except BrokenScoresError as error:
        ledger.fault(case, str(error), want="a logprob for each token", got=reply.logprobs)
        return None
    num_tokens = reply.completion_tokens if reply.ids is None else len(reply.ids)
    if not ledger.compare(case, "number of tokens that have logprobs", num_tokens, len(scored)):
        return None
    if scored and all(one.logprob == 0 for one in scored):
        ledger.fault(case, "every logprob is zero", want="those of the target", got=[one.logprob for one in scored])
        return None
    is_right = _compare_texts(ledger, case, reply, scored)
    is_right = is_right and all(_compare_alternatives(ledger, case, index, one) for index, one in enumerate(scored))
    return scored if is_right else None


def _compare_texts(ledger: Ledger, case: Case, reply: Reply, scored: Sequence[Scored]) -> bool:
    """Hold texts and places of the tokens against what the ids spell; what is no ASCII has no one spelling."""
    if reply.ids is None or any(token >= NUM_IDS for token in reply.ids):
        return True
    want = [spell((token,)) for token in reply.ids]
    if not "".join(want).isascii():
        return True
    if not ledger.compare(case, "texts of the tokens that have logprobs", want, [one.token for one in scored]):
        return False
    if any(one.offset is None for one in scored):
        return True
    offsets = [sum(map(len, want[:index])) for index in range(len(want))]
    return ledger.compare(case, "text_offset of the tokens", offsets, [one.offset for one in scored])


def _compare_alternatives(ledger: Ledger, case: Case, index: int, one: Scored) -> bool:
    """Hold one token against its alternatives."""
    fault = _fault_of_alternatives(one, _num_alternatives(case), is_greedy=case.request.is_greedy)
    if fault:
        ledger.fault(case, f"token {index}: {fault}", want=_num_alternatives(case), got=_shown(one), first_difference=index)
    return not fault


def _fault_of_alternatives(one: Scored, num_asked: int, *, is_greedy: bool) -> str:
    """Return what is wrong: they must be as many as asked for, best first, the token among them, and first where it is greedy.

    A sampled token that is not among the best is added to them, but for a chat's.
    """
    itself, said = (one.token, one.logprob), one.alternatives
    others = [logprob for text, logprob in said if (text, logprob) != itself]
    is_added = len(said) == num_asked + 1 and itself in {said[0], said[-1]}
    is_chat = one.offset is None
    if others != sorted(others, reverse=True):
        return "its alternatives do not come best first"
    if len(said) != num_asked and not is_added:
        return "its alternatives are not as many as asked for"
    if said and itself not in said and not is_chat:
        return "it is not among its own alternatives"
    if is_greedy and num_asked and said[0] != itself:
        return "it was chosen greedily and is not the first of its own alternatives"
    return ""


def _num_alternatives(case: Case) -> int:
    body = case.request.body or {}
    asked = body.get("logprobs")
    return int(body.get("top_logprobs", 0) if isinstance(asked, bool) else asked or 0)


def _compare_with_plain(evidence: Evidence, ledger: Ledger, case: Case) -> None:
    """Hold reply and logprobs against the plain arm's answer to the same request."""
    if case.start.reference is None:
        return
    plain = evidence.reference(case)
    if plain is None:
        ledger.blind(case.start.id, f"{case.start.reference} is not asked {case.request.id}, so nothing is compared")
    elif equal_to(evidence, ledger, case, plain) and plain.answer.reply and case.answer.reply:
        _equal_scores(evidence, ledger, case, "logprobs", plain.answer.reply.logprobs, case.answer.reply.logprobs)


def _equal_scores(evidence: Evidence, ledger: Ledger, case: Case, what: str, want: Any, got: Any) -> bool:
    """Hold scores against others bit for bit; within a band where a subject's rows depend on who shares their pass."""
    if not evidence.declared.exact_scores and agree(want, got, band_of(is_certified=evidence.declared.certified)):
        return True
    return ledger.compare(case, what, want, got)


def _rescore(
    evidence: Evidence, ledger: Ledger, case: Case, scored: Sequence[Scored], scorers: dict[tuple[int, ...], Case]
) -> set[str]:
    """Hold each position bit for bit, or within the band, against a request for one token after the tokens before it."""
    reply = case.answer.reply
    if reply is None or reply.ids is None or RESCORES in case.request.roles or not case.request.is_greedy:
        return set()
    num_rescored = 0
    for index, one in enumerate(scored):
        scorer = scorers.get(case.request.prompt_ids + reply.ids[:index])
        if scorer is None or scorer.answer.reply is None or _num_alternatives(scorer) != _num_alternatives(case):
            continue
        num_rescored += 1
        want = _first_score(scorer)
        if want is not None and not _is_same(evidence, want, one):
            message = f"token {index} is scored otherwise than by {scorer.request.id} on {scorer.start.id}"
            ledger.fault(case, message, want=_shown(want), got=_shown(one), first_difference=index)
            break
    return {RESCORED} if num_rescored == len(scored) > 1 else set()


def _is_same(evidence: Evidence, want: Scored, got: Scored) -> bool:
    if evidence.declared.exact_scores:
        return _without_offset(want) == _without_offset(got)
    band = band_of(is_certified=evidence.declared.certified)
    said, shown = ((one.logprob, dict(one.alternatives)) for one in (want, got))
    return want.token == got.token and agree(said, shown, band)


def _without_offset(one: Scored) -> tuple[object, ...]:
    return one.token, one.logprob, one.alternatives


def _first_score(scorer: Case) -> Scored | None:
    """Return what a request for one token says of it; None where that is broken, which is a finding at its own place."""
    try:
        return next(iter(read_logprobs(scorer.answer.reply.logprobs if scorer.answer.reply else None)), None)
    except BrokenScoresError:
        return None


def _compare_rows(evidence: Evidence, ledger: Ledger, case: Case, scored: Sequence[Scored]) -> set[str]:
    """Hold every logprob against the log-softmax of the row that chose the token, over the ids that may be chosen."""
    reply, dump = case.answer.reply, case.answer.dump
    if not case.facts.dumps_logits or reply is None or reply.ids is None:
        return set()
    if dump is None:
        ledger.fault(case, "no file of logits came with the answer", want="one row for each token", got=None)
        return set()
    try:
        rows = rows_of(dump)
    except BrokenScoresError as error:
        ledger.fault(case, str(error))
        return set()
    if not ledger.compare(case, "number of rows in the file of logits", len(reply.ids), len(rows)):
        return set()
    ids = ids_by_text()
    for index, (token, one, row) in enumerate(zip(reply.ids, scored, rows, strict=True)):
        logprobs = log_softmax(row[: evidence.declared.vocab_bound])
        said = [(token, one.logprob), *((ids[text], logprob) for text, logprob in one.alternatives if text in ids)]
        want = [(scored_id, as_float32(logprobs[scored_id])) for scored_id, _ in said]
        got = [(scored_id, as_float32(logprob)) for scored_id, logprob in said]
        if want != got:
            message = f"logprobs of token {index} are not those of its row in the file of logits"
            ledger.fault(case, message, want=want, got=got, first_difference=index)
            break
    return {FROM_ROWS} if scored else set()


def _knows_logprobs(evidence: Evidence) -> bool:
    sayings = evidence.run.expectations.sayings if evidence.run.expectations else ()
    return any(choice.logprob is not None for saying in sayings for choice in saying.choices)


def _compare_with_float64(evidence: Evidence, ledger: Ledger, case: Case, scored: Sequence[Scored]) -> set[str]:
    """Hold a plain arm's logprobs against those of an independent forward, as far as the reply is what that one says.

    A reply that is not is another law's finding. What arms that are compared with plain say is held against plain's.
    """
    reply, expectations = case.answer.reply, evidence.run.expectations
    saying = expectations.saying(case.start.model, case.request.prompt_ids) if expectations else None
    if case.start.reference is not None or saying is None or reply is None or reply.ids is None or not case.request.is_greedy:
        return set()
    num_held = 0
    for index, (token, one, choice) in enumerate(zip(reply.ids, scored, saying.choices, strict=False)):
        if choice.logprob is None or choice.token != token:
            break
        num_held += 1
        if not near_float64(choice.logprob, one.logprob, is_certified=evidence.declared.certified):
            message = f"the logprob of token {index} is not that of a float64 forward"
            ledger.fault(case, message, want=choice.logprob, got=one.logprob, first_difference=index)
            break
    return {COMPUTED} if num_held else set()


def _compare_modes(evidence: Evidence, ledger: Ledger, case: Case, twin: Case | None) -> set[str]:
    if twin is None or twin.answer.reply is None or case.answer.reply is None:
        ledger.precondition(case.start.id, False, f"{case.request.id}: the same was not answered unstreamed")
        return set()
    _equal_scores(evidence, ledger, case, "logprobs of the stream", twin.answer.reply.logprobs, case.answer.reply.logprobs)
    return {STREAMED}


def _shown(one: Scored) -> list[object]:
    return [one.token, one.logprob, [list(alternative) for alternative in one.alternatives]]


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "Logprobs are the target's, from the row that chose the token: equal bit for bit to one plain request for each position.",
        _judge_logprobs,
    ),
)
