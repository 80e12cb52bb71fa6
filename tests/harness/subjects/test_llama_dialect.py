"""The llama dialect against a small server of it: what is sent, what is read, and both witnesses of its counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.records.plan import Request, Start
from harness.records.recording import Counts
from harness.subjects.column import Launcher
from harness.subjects.description import load_description
from harness.subjects.subject import RunningSubject
from harness.tracing.machine import Machine

FAKE = Path(__file__).parent / "fake" / "fake_llama.toml"


@pytest.fixture
def launcher(tmp_path: Path, machine: Machine) -> Iterator[Launcher]:
    with Launcher(load_description(FAKE), tmp_path, machine=machine) as one:
        yield one


def started(launcher: Launcher, model: Path, arm: str) -> RunningSubject:
    return launcher.start(Start(id=arm, arm=arm, model="tiny", requests=()), model)


def asking(max_tokens: int = 5, *, leave: int | None = None, group: str = "", **fields: Any) -> Request:
    body = {"prompt": "ab", "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True, "return_spec": True, **fields}
    return Request(id=f"r-{max_tokens}", checks=(), body=body, leave_after_chunks=leave, group=group)


def test_counts_are_absent_where_nothing_was_drafted_and_both_witnesses_say_nothing_was(launcher: Launcher, model: Path) -> None:
    answer = started(launcher, model, "plain").ask(asking())
    assert (answer.status, answer.failure) == (200, "")
    assert answer.counts == Counts("plain", None, None, 0, 0, None, 5, 0, None, None)
    assert answer.usage_counts == Counts("plain", None, 0, 0, 0, None, 5, 0, None, None)
    assert "draft_n" not in answer.body["timings"]


def test_counts_of_drafts_come_from_timings_and_from_the_difference_of_the_metrics(launcher: Launcher, model: Path) -> None:
    subject = started(launcher, model, "drafting")
    answers = [subject.ask(asking(budget)) for budget in (5, 2, 7)]
    assert [answer.counts and answer.counts.drafted for answer in answers] == [2, 0, 2]
    assert answers[2].usage_counts == Counts("spec", None, 1, 2, 1, None, 7, 0, None, None)


def test_witnesses_that_differ_are_both_kept(launcher: Launcher, model: Path) -> None:
    answer = started(launcher, model, "miscounting").ask(asking(5))
    assert answer.counts is not None
    assert answer.usage_counts is not None
    assert (answer.counts.tokens, answer.usage_counts.tokens) == (5, 6)


def test_ids_text_and_stop_of_a_reply(launcher: Launcher, model: Path) -> None:
    reply = started(launcher, model, "plain").ask(asking(5, stop=["cd"])).reply
    assert reply is not None
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("ab", (64, 65, 66, 67, 68), "stop", "cd")


def test_an_end_token_is_in_no_count_of_either_witness(launcher: Launcher, model: Path) -> None:
    answer = started(launcher, model, "plain").ask(asking(4, prompt="end"))
    assert answer.reply is not None
    assert (answer.reply.ids, answer.reply.stop_reason, answer.reply.completion_tokens) == ((64, 65, 66), 20, 3)
    assert [counts.tokens for counts in (answer.counts, answer.usage_counts) if counts] == [3, 3]


def test_a_stream_is_the_unstreamed_reply_and_the_next_request_gets_a_connection(launcher: Launcher, model: Path) -> None:
    subject = started(launcher, model, "plain")
    streamed = [subject.ask(asking(4, stream=True, stream_options={"include_usage": True})) for _ in range(3)]
    plain = subject.ask(asking(4))
    for answer in streamed:
        assert (answer.failure, answer.saw_done, answer.reply) == ("", True, plain.reply)
        assert [chunk.text for chunk in answer.chunks] == ["a", "b", "c", "d", ""]
        assert [chunk.has_usage for chunk in answer.chunks] == [False] * 4 + [True]
        assert answer.usage_counts is not None


def test_requests_at_once_have_one_witness_alone(launcher: Launcher, model: Path) -> None:
    subject = started(launcher, model, "drafting")
    together = subject.ask_all([asking(5, group="g"), asking(6, group="g")])
    assert [(answer.counts is not None, answer.usage_counts) for answer in together] == [(True, None)] * 2
    alone = subject.ask(asking(5))
    assert alone.usage_counts is not None
    assert alone.usage_counts.tokens == 5


def test_a_refused_request_has_no_counts_and_leaves_the_next_one_its_own(launcher: Launcher, model: Path) -> None:
    subject = started(launcher, model, "plain")
    bad = asking(5)
    refused = subject.ask(
        Request(id="bad", checks=(), body={name: value for name, value in (bad.body or {}).items() if name != "prompt"})
    )
    assert (refused.status, refused.counts, refused.usage_counts) == (400, None, None)
    assert subject.ask(asking(5)).usage_counts == Counts("plain", None, 0, 0, 0, None, 5, 0, None, None)
