"""The laws on where a reply ends: at a stop, at an end token, at the end of the context; and on streams, which show no more.

Each rule is computed from a reply that nothing cut, then held against every arm, and against the plain arm's own cut reply.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.checks.check import Check, Ledger
from harness.checks.compare import (
    as_said,
    equal_replies,
    equal_to,
    is_told,
    knows_rounds,
    landed_at_end,
    pairs,
    rounds_of,
    served,
    speculates,
    starts_of,
)
from harness.checks.evidence import Case, Evidence
from harness.checks.stops import stopped, stops_of
from harness.checks.streams import judge_stream_join
from harness.oracle.predict import LOOKUP
from harness.oracle.streamwise import drafts_end_tokens
from harness.records.finding import Verdict
from harness.records.recording import Reply

WHOLE = "whole"  # role of a reply that nothing cuts
EACH_PLACE = "each-place"  # role on a start whose end token must fall on each place of its pack's block
UNENDED = "plain"  # the start on the model that no stream's token ends
Wholes = dict[tuple[str, tuple[int, ...]], Case]


def _judge_stop_cut(evidence: Evidence, ledger: Ledger) -> None:
    wholes = _wholes(evidence, "stop-cut")
    for start_id, cases in starts_of(evidence, "stop-cut").items():
        num_completed = 0
        in_block: list[bool | None] = []
        for case in cases:
            if not stops_of(case.request):
                continue
            ledger.examine(start_id)
            got = _judge_stop(evidence, ledger, case, _whole_of(wholes, case))
            if got is not None and got.finish_reason == "stop":
                num_completed += 1
                in_block.append(landed_at_end(evidence, case))
        asked = any(stops_of(case.request) for case in cases)
        ledger.precondition(start_id, num_completed > 0 or not asked, "no stop was completed", want="one", got=0)
        if speculates(cases[0]) and is_told(evidence, in_block):
            ledger.precondition(start_id, any(in_block), "no stop was completed by an accepted draft", want="one", got=0)


def _judge_stop(evidence: Evidence, ledger: Ledger, case: Case, uncut: Case | None) -> Reply | None:
    """Hold one stopped reply against the rule, then against the plain arm's; return it where it is right."""
    if uncut is None:
        ledger.blind(case.start.id, f"{case.request.id}: the plain arm was not asked for this reply without stops")
        return None
    whole, got = served(evidence, ledger, uncut), served(evidence, ledger, case)
    if whole is None or got is None:
        return None
    want = stopped(whole, stops_of(case.request), case.request.max_tokens)
    if want is None:
        ledger.blind(
            case.start.id, f"{uncut.request.id}: its text is not one character per token", want=whole.ids, got=whole.text
        )
        return None
    if not equal_replies(ledger, case, as_said(evidence, want), got, than=" of the reply cut at the stop"):
        return None
    reference = evidence.reference(case)
    return got if reference is None or equal_to(evidence, ledger, case, reference) else None


def _judge_end_token(evidence: Evidence, ledger: Ledger) -> None:
    wholes = _wholes(evidence, "end-token")
    for start_id, cases in starts_of(evidence, "end-token").items():
        places: set[int] = set()
        for case in cases:
            ledger.examine(start_id)
            place = _judge_end(evidence, ledger, case, _whole_of(wholes, case))
            if place is not None:
                places.add(place)
        if speculates(cases[0]) and knows_rounds(evidence, cases):
            _require_places(ledger, cases[0], places, _places_wanted(evidence, cases))


def _judge_end(evidence: Evidence, ledger: Ledger, case: Case, uncut: Case | None) -> int | None:
    """Hold one reply against the rule, then against the plain arm's; return the place of a block at which it ended, if known."""
    if uncut is None:
        ledger.blind(case.start.id, f"{case.request.id}: the plain arm was not asked for this reply with ignore_eos")
        return None
    whole, got = served(evidence, ledger, uncut), served(evidence, ledger, case)
    if whole is None or got is None:
        return None
    if WHOLE in case.request.roles:
        is_right = ledger.compare(case, "finish_reason with ignore_eos", "length", got.finish_reason)
        is_right = is_right and ledger.compare(case, "tokens with ignore_eos", case.request.max_tokens, got.completion_tokens)
        if is_right and case.start.reference is not None:
            equal_replies(ledger, case, whole, got, than=" with ignore_eos")
        return None
    is_right = _ends_before_its_end_token(evidence, ledger, case, whole, got)
    reference = evidence.reference(case)
    if is_right and reference is not None:
        is_right = equal_to(evidence, ledger, case, reference)
    return _place_of_end(evidence, case, got) if is_right else None


def _ends_before_its_end_token(evidence: Evidence, ledger: Ledger, case: Case, whole: Reply, got: Reply) -> bool:
    """Hold a reply against the one that ignored the twin's end tokens: cut before the first of them."""
    ends = _end_tokens(case)
    ids = whole.ids or ()
    num_tokens = next((index for index, token in enumerate(ids) if token in ends), None)
    if num_tokens is None:
        ledger.blind(case.start.id, f"{case.request.id}: the reply holds no end token of {case.start.model}", want=ends, got=ids)
        return False
    wanted = (
        ("ids", ids[:num_tokens], got.ids),
        ("finish_reason", "stop", got.finish_reason),
        ("stop_reason", ids[num_tokens], got.stop_reason),
        ("completion_tokens", num_tokens, got.completion_tokens),
    )
    told = [(name, want, seen) for name, want, seen in wanted if name not in evidence.declared.silent]
    is_right = all(ledger.compare(case, f"{name} of the reply cut at its end token", want, seen) for name, want, seen in told)
    if is_right and len(whole.text) == len(ids):
        return ledger.compare(case, "text of the reply cut at its end token", whole.text[:num_tokens], got.text)
    return is_right


def _place_of_end(evidence: Evidence, case: Case, reply: Reply) -> int | None:
    """Return where in a block the end token fell: 0 = t1, j = the j-th draft; None where the rounds do not tell.

    An end token that is a draft is the first one not accepted of the last round. With plain steps on the way that round may be
    an earlier one, whose rejected draft only looks like it.
    """
    want = evidence.prediction(case)
    if want is not None and want.end_place is not None:
        return want.end_place
    rounds = rounds_of(evidence, case)
    if not rounds:
        return 0
    last = rounds[-1]
    is_draft = last.drafted_ids[last.num_accepted : last.num_accepted + 1] == (reply.stop_reason,)
    if not is_draft:
        return 0
    counts = case.answer.counts
    return last.num_accepted + 1 if counts is not None and counts.plain == 0 else None


def _places_wanted(evidence: Evidence, cases: Sequence[Case]) -> set[int]:
    """Return the places of a block on which an end token must fall: all of lookup's, and of a pack's where that is asked; else none."""
    start, k = cases[0].start, cases[0].start.parameters.get("k")
    if k is not None and cases[0].facts.oracle == LOOKUP:
        return set(range(int(k) + 1))
    if not any(EACH_PLACE in case.request.roles for case in cases):
        return set()
    sizes = evidence.run.expectations.block_sizes if evidence.run.expectations else {}
    return set(range(sizes.get(start.pack or "", 0)))


def _require_places(ledger: Ledger, case: Case, places: set[int], want: set[int]) -> None:
    """Write down BLIND unless an end token fell on each place that is wanted; where none is, on some draft."""
    holds = want <= places if want else any(place > 0 for place in places) or not drafts_end_tokens(case.facts.oracle)
    message = "the end token did not fall on each place of a block (0 = t1, j = the j-th draft)"
    ledger.precondition(case.start.id, holds, message, want=sorted(want) or "a draft", got=sorted(places))


def _end_tokens(case: Case) -> tuple[int, ...]:
    """Return the end tokens that a twin's name gives it: tiny+eos=93.29."""
    lists = [part.removeprefix("eos=") for part in case.start.model.split("+") if part.startswith("eos=")]
    return tuple(int(token) for tokens in lists for token in tokens.split("."))


def _judge_context_end(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, "context-end").items():
        for case in cases:
            if case.start.reference is None:  # the others are examined as pairs
                ledger.examine(start_id)
            if case.request.expect != 200:
                _judge_over_long(ledger, case)
        if speculates(cases[0]):
            filled = [landed_at_end(evidence, case) for case in cases if _fills_context(case)]
            message = "no reply ended at the end of the context on an accepted draft"
            can_fill = is_told(evidence, filled) and not evidence.declared.reserves_token
            ledger.precondition(start_id, any(filled) or not can_fill, message, want="one", got=0)
    for case, reference in pairs(evidence, ledger, "context-end"):
        if case.request.expect == 200:
            equal_to(evidence, ledger, case, reference)


def _judge_over_long(ledger: Ledger, case: Case) -> None:
    """A prompt that leaves the reply no room is refused on every arm alike, the plain one too."""
    if case.answer.status != case.request.expect:
        got = case.answer.status if case.answer.status is not None else case.answer.failure
        ledger.fault(case, "a prompt as long as the context was not refused", want=case.request.expect, got=got)


def _fills_context(case: Case) -> bool:
    """Whether a reply was ended by the context: its budget allowed more."""
    reply = case.answer.reply
    if reply is None or reply.completion_tokens is None:
        return False
    return reply.finish_reason == "length" and reply.completion_tokens < case.request.max_tokens


def _wholes(evidence: Evidence, check: str) -> Wholes:
    """Return the cases that nothing cuts, by start and prompt."""
    return {(case.start.id, case.request.prompt_ids): case for case in evidence.cases(check, WHOLE)}


def _whole_of(wholes: Wholes, case: Case) -> Case | None:
    """Return the plain arm's case of the same prompt that nothing cuts: on the same model, or on one with other end tokens."""
    prompt = case.request.prompt_ids
    return wholes.get((case.start.reference or case.start.id, prompt)) or wholes.get((UNENDED, prompt))


CHECKS: tuple[Check, ...] = (
    Check(
        "stop-cut",
        Verdict.MISMATCH,
        "A stop cuts text, ids and counts exactly where the rule says, inside a block as outside, and wins over the budget.",
        _judge_stop_cut,
    ),
    Check(
        "end-token",
        Verdict.MISMATCH,
        "An end token ends the reply at each place of a block and is in no text, id or count; ignore_eos goes on.",
        _judge_end_token,
    ),
    Check(
        "context-end",
        Verdict.MISMATCH,
        "At the end of the context status, ids and finish are the plain arm's, and the next request is served.",
        _judge_context_end,
        reads_order=True,
    ),
    Check(
        "stream-join",
        Verdict.MISMATCH,
        "The chunks of a stream joined are the unstreamed reply, nothing is shown that is cut, and it ends once.",
        judge_stream_join,
    ),
)
