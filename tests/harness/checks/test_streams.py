"""The law on streams: joined they are the unstreamed reply, they end once, and their text is what their ids spell."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from harness.oracle.spelling import spell
from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Chunk, Run
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import blind, changed, findings, places, result, run_of, with_reply, without

CHECK = "stream-join"
Chunks = tuple[Chunk, ...]


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(CHECK, tier).plan.starts} == set(got.examined)


def a_stream(run: Run, start_id: str = "lookup") -> tuple[str, Chunks]:
    """A streamed request that a stop ended, and its chunks."""
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    for request in recording.start.requests:
        answer = recording.answer(request.id)
        if request.streams and answer is not None and answer.reply is not None and answer.reply.finish_reason == "stop":
            return request.id, answer.chunks
    raise AssertionError(start_id)


def doubled(chunks: Chunks) -> Chunks:
    """A chunk sent twice."""
    return (chunks[0], *chunks)


def dropped(chunks: Chunks) -> Chunks:
    """A chunk lost."""
    return chunks[1:]


def tail_lost(chunks: Chunks) -> Chunks:
    """The last text and ids before the finish lost."""
    return (*chunks[:-3], *chunks[-2:])


def swapped(chunks: Chunks) -> Chunks:
    """Two chunks in the wrong order."""
    return (chunks[1], chunks[0], *chunks[2:])


def stop_shown(chunks: Chunks) -> Chunks:
    """Text shown that the stop cuts."""
    return (*chunks[:-2], msgspec.structs.replace(chunks[-2], text=chunks[-2].text + "x"), chunks[-1])


def id_lost(chunks: Chunks) -> Chunks:
    """A chunk's ids lost, its text there."""
    return (msgspec.structs.replace(chunks[0], ids=()), *chunks[1:])


def finish_changed(chunks: Chunks) -> Chunks:
    """Another finish_reason."""
    return (*chunks[:-2], msgspec.structs.replace(chunks[-2], finish_reason="length"), chunks[-1])


def late_text(chunks: Chunks) -> Chunks:
    """Text behind the finish."""
    return (*chunks[:-1], Chunk("x"), chunks[-1])


def two_finishes(chunks: Chunks) -> Chunks:
    """The finish twice."""
    return (*chunks[:-1], chunks[-2], chunks[-1])


def no_finish(chunks: Chunks) -> Chunks:
    """No finish at all."""
    return (*chunks[:-2], chunks[-1])


def no_usage(chunks: Chunks) -> Chunks:
    """No usage at all."""
    return chunks[:-1]


def usage_twice(chunks: Chunks) -> Chunks:
    """The usage twice."""
    return (*chunks, chunks[-1])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (doubled, "ids of the stream differs"),
        (dropped, "ids of the stream differs"),
        (tail_lost, "ids of the stream differs"),
        (swapped, "ids of the stream differs"),
        (stop_shown, "text of the stream differs"),
        (id_lost, "ids of the stream differs"),
        (finish_changed, "finish_reason differs"),
        (late_text, "a chunk after the finish shows something"),
        (two_finishes, "2 chunks carry a finish_reason"),
        (no_finish, "0 chunks carry a finish_reason"),
        (no_usage, "usage does not come once and last"),
        (usage_twice, "usage does not come once and last"),
    ],
)
def test_a_broken_stream_is_found(broken: Callable[[Chunks], Chunks], message: str) -> None:
    run = run_of(CHECK)
    name, chunks = a_stream(run)
    (one,) = findings(CHECK, altered(run, "lookup", name, chunks=broken(chunks)))
    assert (one.start, one.request, one.message, one.verdict) == ("lookup", name, message, Verdict.MISMATCH)


def test_a_stream_without_its_closing_event_is_found() -> None:
    run = run_of(CHECK)
    name, _ = a_stream(run)
    (one,) = findings(CHECK, altered(run, "lookup", name, saw_done=False))
    assert (one.request, one.message) == (name, "the stream has no closing event")


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens", "stop_reason"])
def test_usage_and_stop_reason_of_both_modes_are_compared(field: str) -> None:
    run = run_of(CHECK)
    name, _ = a_stream(run)
    (one,) = findings(CHECK, altered(run, "lookup", name, reply={field: 99}))
    assert (one.request, one.message, one.got) == (name, f"{field} differs", 99)


def test_a_hold_back_too_short_in_both_modes_is_found_by_the_spelling() -> None:
    def leaking(start: Start, request: Request, one: Answer) -> Answer:
        if start.id != "lookup" or one.reply is None or one.reply.finish_reason != "stop":
            return one
        one = with_reply(one, text=one.reply.text + "x")
        return msgspec.structs.replace(one, chunks=stop_shown(one.chunks)) if request.streams else one

    found = findings(CHECK, changed(run_of(CHECK), leaking))
    assert {one.start for one in found} == {"lookup"}
    assert {one.message for one in found} == {"the text that the ids spell differs"}


def test_half_a_character_flushed_in_both_modes_is_found_by_the_spelling() -> None:
    def flushed(start: Start, request: Request, one: Answer) -> Answer:
        if start.id != "plain" or "characters" not in request.roles or one.reply is None:
            return one
        text = one.reply.text.replace("é", "\N{REPLACEMENT CHARACTER}" * 2)
        end = Chunk("", finish_reason="length")
        usage = Chunk("", has_usage=True)
        chunks = (Chunk(text[:1]), Chunk(text[1:], one.reply.ids or ()), end, usage) if request.streams else ()
        return msgspec.structs.replace(with_reply(one, text=text), chunks=chunks)

    found = findings(CHECK, changed(run_of(CHECK, Tier.GATE), flushed))
    assert {(one.start, one.message) for one in found} == {("plain", "the text that the ids spell differs")}


def test_half_a_character_flushed_is_found_on_the_container_of_such_replies_in_the_smallest_plan() -> None:
    def flushed(start: Start, request: Request, one: Answer) -> Answer:
        if start.id != "text/plain" or not request.streams or one.reply is None:
            return one
        halves = tuple(msgspec.structs.replace(chunk, text=spell(chunk.ids)) if chunk.ids else chunk for chunk in one.chunks)
        return msgspec.structs.replace(one, chunks=halves)

    found = findings(CHECK, changed(run_of(CHECK), flushed))
    assert {(one.start, one.message) for one in found} == {("text/plain", "text of the stream differs")}


def test_streams_that_come_in_one_piece_prove_nothing() -> None:
    def buffered(_start: Start, request: Request, one: Answer) -> Answer:
        if not request.streams or one.reply is None:
            return one
        whole = Chunk(one.reply.text, one.reply.ids or (), one.reply.finish_reason)
        return msgspec.structs.replace(one, chunks=(whole, Chunk("", has_usage=True)))

    found = findings(CHECK, changed(run_of(CHECK), buffered))
    assert places(found) == [("plain", ""), ("lookup", ""), ("text/plain", "")]
    assert blind(found) == ["no stream came in several pieces"] * 3


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("旧本é日𝄞ñ😁😀яжè€", "no streamed reply holds a character of several bytes"),
        ("\N{REPLACEMENT CHARACTER}", "no streamed reply holds an invalid byte"),
    ],
)
def test_replies_of_plain_characters_prove_nothing_about_halves(gone: str, message: str) -> None:
    table = str.maketrans(dict.fromkeys(gone, "a"))

    def plainer(_start: Start, request: Request, one: Answer) -> Answer:
        if "characters" not in request.roles or one.reply is None:
            return one
        chunks = tuple(msgspec.structs.replace(chunk, text=chunk.text.translate(table)) for chunk in one.chunks)
        return msgspec.structs.replace(with_reply(one, text=one.reply.text.translate(table), ids=None), chunks=chunks)

    run = changed(run_of(CHECK), plainer)
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, returns_ids=False))
    assert blind(findings(CHECK, run)) == [message]


def test_a_stream_without_its_unstreamed_twin_proves_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: not request.streams))
    assert {one.verdict for one in found} == {Verdict.BLIND}
    assert all("was not asked unstreamed" in one.message for one in found)
