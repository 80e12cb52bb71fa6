"""The divergence of a finding on a reply: where it left the one that it must be, how close the choice was, and what path led there.

A finding is on a reply where what was got is that reply's ids or text. Pure: what takes model files is asked of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from harness.checks.check import first_difference
from harness.checks.evidence import Case, Evidence
from harness.checks.scores import BrokenScoresError, read_logprobs
from harness.checks.spots import spots_of
from harness.oracle.abstain import abstains
from harness.records.divergence import Divergence, Gap, GapSource, Side, Spot, Unit
from harness.records.expectation import Ids
from harness.records.finding import Finding, Judgement
from harness.records.recording import Answer, Reply

MOST_IDS, MOST_CHARACTERS = 8, 40  # of each side that are told

Place = tuple[str, Ids, int | None]  # model, the sequence that a choice follows, the id that was got there
Gaps = Callable[[Sequence[Place]], Sequence[Gap | None]]


def no_gaps(places: Sequence[Place]) -> list[None]:
    """Return no gap for any place: where the files of the models are not at hand."""
    return [None] * len(places)


def with_divergences(evidence: Evidence, judgement: Judgement, gaps: Gaps = no_gaps) -> Judgement:
    """Return a judgement whose findings on replies tell their divergence; `gaps` is asked once, for all of them."""
    seen = [_seen(evidence, finding) for finding in judgement.findings]
    places = [one.place for one in seen if one is not None and one.place is not None]
    found = iter(gaps(places))
    told = iter([None if one is None else _divergence(one, next(found) if one.place else None) for one in seen])
    results = tuple(
        msgspec.structs.replace(
            result, findings=tuple(msgspec.structs.replace(finding, divergence=next(told)) for finding in result.findings)
        )
        for result in judgement.results
    )
    return msgspec.structs.replace(judgement, results=results)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A finding on a reply, before the gap is known."""

    divergence: Divergence
    place: Place | None  # whose gap is to be computed from files; None: it is known already, or there is none


def _seen(evidence: Evidence, finding: Finding) -> _Seen | None:
    """Return what a run tells of a finding's divergence; None for a finding that is on no reply."""
    case = evidence.case(finding.start, finding.request)
    if case is None or finding.first_difference is None or case.answer.reply is None:
        return None
    want, got, reply = finding.want, finding.got, case.answer.reply
    if _are_ids(want) and got in (reply.ids, tuple(token for chunk in case.answer.chunks for token in chunk.ids)):
        return _of_ids(evidence, case, want, got)
    if isinstance(want, str) and got in (reply.text, "".join(chunk.text for chunk in case.answer.chunks)):
        return _Seen(_of_texts(want, got), None)
    return None


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, int) for one in value)


def _of_texts(want: str, got: str) -> Divergence:
    index = first_difference(want, got)
    assert index is not None
    nobody = "texts alone tell no token"
    sides = [Side((), text[index : index + MOST_CHARACTERS], len(text)) for text in (want, got)]
    return Divergence(
        unit=Unit.CHARACTERS,
        index=index,
        want=sides[0],
        got=sides[1],
        shared_ids=(),
        shared_text=want[:index],
        gap_unknown=nobody,
        spot_unknown=nobody,
        predicted_unknown=nobody,
    )


def _of_ids(evidence: Evidence, case: Case, want: Ids, got: Ids) -> _Seen:
    index = first_difference(want, got)
    assert index is not None
    texts = _text_of(evidence, case, want), _text_of(evidence, case, got)
    shared = _num_shared(*texts)
    sides = [
        Side(ids[index : index + MOST_IDS], text[shared : shared + MOST_CHARACTERS], len(ids))
        for ids, text in zip((want, got), texts, strict=True)
    ]
    found = Divergence(
        unit=Unit.TOKENS, index=index, want=sides[0], got=sides[1], shared_ids=want[:index], shared_text=texts[0][:shared]
    )
    found = _with_predicted(evidence, case, _with_spot(evidence, case, found))
    why = _why_no_gap(case)
    if why:
        return _Seen(msgspec.structs.replace(found, gap_unknown=why), None)
    gap = _gap_by_logprobs(evidence, case, found.shared_ids)
    if gap is not None:
        return _Seen(msgspec.structs.replace(found, gap=gap), None)
    place = case.start.model, case.request.prompt_ids + found.shared_ids, got[index] if index < len(got) else None
    return _Seen(found, place)


def _text_of(evidence: Evidence, case: Case, ids: Ids) -> str:
    """Return the text of one of the two replies: that of the answer, among those to the same prompt, that has these ids."""
    for one in (case, evidence.reference(case), *evidence.all_cases):
        reply = one.answer.reply if one is not None else None
        if one is not None and reply is not None and reply.ids == ids and one.request.prompt_ids == case.request.prompt_ids:
            return reply.text
    longest = max((reply for one in evidence.all_cases if (reply := _begins(one, case, ids))), key=_length, default=None)
    return longest.text[: len(ids)] if longest is not None and len(longest.text) == _length(longest) else ""


def _begins(one: Case, case: Case, ids: Ids) -> Reply | None:
    """Return a reply to the case's prompt that begins with these ids."""
    reply = one.answer.reply
    is_such = reply is not None and reply.ids is not None and reply.ids[: len(ids)] == ids
    return reply if is_such and one.request.prompt_ids == case.request.prompt_ids else None


def _length(reply: Reply) -> int:
    return len(reply.ids or ())


def _num_shared(left: str, right: str) -> int:
    index = first_difference(left, right)
    return len(left) if index is None else index


def _with_predicted(evidence: Evidence, case: Case, found: Divergence) -> Divergence:
    """Add the round that had to commit what was wanted, by the walk over the plain reply."""
    want = evidence.prediction(case)
    if want is None or want.rounds is None or want.round_starts is None:
        why = want.unknown if want is not None else "nothing predicts its path"
        return msgspec.structs.replace(found, predicted_unknown=why or "no oracle knows its rounds")
    if found.index >= want.tokens:
        return msgspec.structs.replace(found, predicted_unknown="the reply had ended there")
    for number, (start, one) in enumerate(zip(want.round_starts, want.rounds, strict=True)):
        if start <= found.index <= start + one.num_accepted:
            return msgspec.structs.replace(found, predicted_spot=Spot(number, found.index - start), predicted=one)
    return msgspec.structs.replace(found, predicted_spot=Spot(None))


def _with_spot(evidence: Evidence, case: Case, found: Divergence) -> Divergence:
    """Add where the subject committed the token, from its own list of rounds."""
    answer, counts = case.answer, case.answer.counts
    ids = answer.reply.ids if answer.reply else None
    if answer.rounds is None or ids is None:
        return msgspec.structs.replace(found, spot_unknown="the answer lists no rounds")
    if found.index >= len(ids):
        return msgspec.structs.replace(found, spot_unknown="the reply had ended there")
    spots = spots_of(ids, answer.rounds, counts.plain if counts else None, found.index)
    spot = _chosen(evidence, case, answer, spots, found.index)
    if spot is None:
        why = "its plain steps may lie before or behind it" if spots else "its rounds do not fit its reply"
        return msgspec.structs.replace(found, spot_unknown=why)
    taken = None if spot.round is None else answer.rounds[spot.round]
    return msgspec.structs.replace(found, spot=spot, taken=taken)


def _chosen(evidence: Evidence, case: Case, answer: Answer, spots: set[Spot], index: int) -> Spot | None:
    """Return the one spot that is possible; of several, the one that the predicted path leads to, if both begin alike."""
    if len(spots) == 1:
        return next(iter(spots))
    want = evidence.prediction(case)
    if want is None or want.rounds is None or want.round_starts is None:
        return None
    rounds = answer.rounds or ()
    for number, start in enumerate(want.round_starts):
        if want.rounds[:number] != rounds[:number]:
            return None
        if start > index or number >= len(rounds):
            break
        if index <= start + rounds[number].num_accepted:
            spot = Spot(number, index - start)
            return spot if spot in spots else None
    return Spot(None) if Spot(None) in spots else None


def _why_no_gap(case: Case) -> str:
    """Return why the row that decides there is not the plain one; "" where it is."""
    if not case.request.prompt_ids:
        return "the ids of the prompt are not known"
    reason = abstains(case.request, dumps_logits=False)
    return "" if reason in (None, "logprobs") else f"the model's own row does not decide there: {reason}"


def _gap_by_logprobs(evidence: Evidence, case: Case, shared: Ids) -> Gap | None:
    """Return the gap that a plain answer to the same prompt tells, where one was asked for logprobs and goes the same way."""
    for one in evidence.all_cases:
        reply = one.answer.reply
        is_plain = one.facts.drafter == "none" and one.start.model == case.start.model
        if not is_plain or reply is None or reply.ids is None or one.request.prompt_ids != case.request.prompt_ids:
            continue
        if reply.logprobs is None or _why_no_gap(one) or reply.ids[: len(shared)] != shared or len(reply.ids) == len(shared):
            continue
        try:
            best = sorted(read_logprobs(reply.logprobs)[len(shared)].alternatives, key=lambda pair: -pair[1])[:2]
        except (BrokenScoresError, IndexError):
            continue
        if len(best) == 2:
            (first, lead), (second, following) = best
            return Gap(GapSource.LOGPROBS, first, second, lead - following)
    return None


def _divergence(seen: _Seen, gap: Gap | None) -> Divergence:
    if seen.place is None:
        return seen.divergence
    if gap is None:
        return msgspec.structs.replace(seen.divergence, gap_unknown="no forward was computed there")
    return msgspec.structs.replace(seen.divergence, gap=gap)
