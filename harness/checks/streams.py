"""The law on streams: joined they are the unstreamed reply, byte for byte, and the text that their own ids spell."""

from __future__ import annotations

from typing import Any

from harness.checks.check import Ledger
from harness.checks.compare import asked_of, served, starts_of
from harness.checks.evidence import Case, Evidence
from harness.checks.stops import stops_of, text_before
from harness.oracle.spelling import NUM_IDS, spell
from harness.records.recording import Chunk, Reply

CHECK = "stream-join"
CHARACTERS = "characters"  # role of replies that must hold characters of several bytes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def judge_stream_join(evidence: Evidence, ledger: Ledger) -> None:
    """Judge every streamed request of the check beside the same one unstreamed on the same start."""
    for start_id, cases in starts_of(evidence, CHECK).items():
        unstreamed = {_asked(case): case for case in cases if not case.request.streams}
        most_pieces = 0
        for case in cases:
            if not case.request.streams:
                continue
            ledger.examine(start_id)
            twin = unstreamed.get(_asked(case))
            if twin is None:
                ledger.blind(start_id, f"{case.request.id}: the same was not asked unstreamed, so nothing is compared")
                continue
            _judge_stream(evidence, ledger, case, twin)
            most_pieces = max(most_pieces, sum(bool(chunk.text) for chunk in case.answer.chunks))
        ledger.precondition(start_id, most_pieces > 1, "no stream came in several pieces", want="two or more", got=most_pieces)
        _require_characters(ledger, cases)


def _judge_stream(evidence: Evidence, ledger: Ledger, case: Case, twin: Case) -> None:
    want, got = served(evidence, ledger, twin), served(evidence, ledger, case)
    if want is None or got is None or not _is_well_formed(ledger, case):
        return
    chunks = case.answer.chunks
    text = "".join(chunk.text for chunk in chunks)
    ids = tuple(token for chunk in chunks for token in chunk.ids)
    pairs: list[tuple[str, Any, Any]] = [
        ("text of the stream", want.text, text),
        ("finish_reason", want.finish_reason, _finishes(chunks)[0]),
        ("stop_reason", want.stop_reason, got.stop_reason),
        ("prompt_tokens", want.prompt_tokens, got.prompt_tokens),
        ("completion_tokens", want.completion_tokens, got.completion_tokens),
    ]
    if want.ids is not None:
        pairs.insert(0, ("ids of the stream", want.ids, ids))
    if all(ledger.compare(case, name, wanted, seen) for name, wanted, seen in pairs):
        _judge_spelling(ledger, case, want, text)


def _is_well_formed(ledger: Ledger, case: Case) -> bool:
    """Hold the shape of a stream: one finish, nothing shown behind it, usage once and last, and the closing event."""
    chunks = case.answer.chunks
    finishes = _finishes(chunks)
    if len(finishes) != 1:
        ledger.fault(case, f"{len(finishes)} chunks carry a finish_reason", want=1, got=finishes)
        return False
    end = next(index for index, chunk in enumerate(chunks) if chunk.finish_reason is not None)
    late = [index for index, chunk in enumerate(chunks) if index > end and (chunk.text or chunk.ids)]
    usages = [index for index, chunk in enumerate(chunks) if chunk.has_usage]
    is_right = True
    if late:
        ledger.fault(case, "a chunk after the finish shows something", want=f"nothing after chunk {end}", got=f"chunk {late[0]}")
        is_right = False
    if usages != [len(chunks) - 1]:
        ledger.fault(case, "usage does not come once and last", want=[len(chunks) - 1], got=usages)
        is_right = False
    if not case.answer.saw_done:
        ledger.fault(case, "the stream has no closing event", want="data: [DONE]", got="the end of the connection")
        is_right = False
    return is_right


def _judge_spelling(ledger: Ledger, case: Case, reply: Reply, text: str) -> None:
    """Hold both texts, equal here, against what the ids spell, cut at the first stop in it: so a fault of both modes shows."""
    if reply.ids is None or any(token >= NUM_IDS for token in reply.ids):
        return
    want = text_before(spell(reply.ids), stops_of(case.request))
    ledger.compare(case, "the text that the ids spell", want, text)


def _require_characters(ledger: Ledger, cases: list[Case]) -> None:
    """Write down BLIND unless the replies that are asked for it hold a character of several bytes, and an invalid byte."""
    texts = [
        "".join(chunk.text for chunk in case.answer.chunks)
        for case in cases
        if case.request.streams and CHARACTERS in case.request.roles
    ]
    if not texts:
        return
    joined = "".join(texts)
    has_character = any(ord(character) > 127 and character != REPLACEMENT for character in joined)
    ledger.precondition(cases[0].start.id, has_character, "no streamed reply holds a character of several bytes", got=joined)
    ledger.precondition(cases[0].start.id, REPLACEMENT in joined, "no streamed reply holds an invalid byte", got=joined)


def _finishes(chunks: tuple[Chunk, ...]) -> list[str]:
    return [chunk.finish_reason for chunk in chunks if chunk.finish_reason is not None]


def _asked(case: Case) -> str:
    return asked_of(case, "stream", "stream_options")
