"""Asking a running subject: how an answer finds its log line, and what is asked at once."""

import numpy as np
import pytest

from harness.records.plan import Request
from harness.records.recording import Counts

from .conftest import WARM, asking, planned

pytestmark = WARM

COUNTS = Counts("spec", "lookup", 1, 4, 1, 0, 3, 0, None, "-")
LINE = "[spec] id=NAME path=spec drafter=lookup rounds=1 drafted=4 accepted=1 plain=0 tokens=3 cached=0 fallback=- reason=-"


def test_an_answer_carries_both_witnesses_of_its_path(subject):
    answer = subject.ask(asking())
    assert (answer.failure, answer.counts, answer.usage_counts) == ("", COUNTS, COUNTS)
    assert answer.rounds[0].drafted_ids == (1, 2, 3, 4)


def test_a_line_that_comes_after_the_answer_is_waited_for(subject):
    assert subject.ask(asking("late-line")).counts == COUNTS


@pytest.mark.parametrize(
    ("lines", "counts", "failure"),
    [
        ([], None, ""),
        ([LINE.replace("NAME", "NAME0")], None, ""),
        ([LINE, LINE], None, "counts: 2 lines of one request"),
        ([LINE.replace("rounds=1", "rounds=one")], None, "rounds='one' is no count"),
        (["noise", LINE, "noise"], COUNTS, ""),
    ],
)
def test_a_line_that_is_missing_doubled_or_wrong_is_no_guess(subject, lines, counts, failure):
    answer = subject.ask(asking("lines", lines=lines))
    assert (answer.status, answer.counts) == (200, counts)
    assert failure in answer.failure
    assert bool(answer.failure) == bool(failure)


def test_a_failed_forward_without_an_id_has_the_only_new_line(subject):
    subject.ask(asking())
    answer = subject.ask(asking("fail"))
    assert (answer.status, answer.body) == (500, {"error": {"message": "pass failed"}})
    assert (answer.counts.reason, answer.counts.tokens) == ("failed", 0)


def test_a_client_that_leaves_has_the_line_of_the_id_that_it_saw(subject):
    answer = subject.ask(asking("stream", chunks=1_000_000, stream=True, leave_after_chunks=2))
    assert (answer.status, answer.failure, len(answer.chunks)) == (None, "left", 2)
    assert answer.counts.reason == "cancelled"
    assert answer.counts.tokens < 1_000_000
    assert subject.ask(asking()).counts == COUNTS


def test_a_client_that_leaves_at_once_has_the_only_new_line(subject):
    answer = subject.ask(asking("stream", chunks=1_000_000, stream=True, leave_after_chunks=0))
    assert (answer.failure, answer.chunks, answer.counts.reason) == ("left", (), "cancelled")


def test_a_refused_body_waits_for_no_line(subject):
    answer = subject.ask(Request(id="r", checks=(), raw="{"))
    assert (answer.status, answer.counts, answer.failure) == (400, None, "")
    assert answer.body["error"]["message"] == "{"
    assert answer.seconds < 0.1


def test_a_deadline_leaves_the_next_request_untouched(subject):
    assert subject.ask(asking("drip", deadline_s=0.1)).failure == "deadline"
    assert subject.ask(asking()).counts == COUNTS


def test_requests_at_once_are_inside_together_and_answered_in_their_order(subject):
    requests = [asking("meet", f"r{index}", count=5) for index in range(5)]
    answers = subject.ask_all(requests)
    assert [answer.request_id for answer in answers] == ["r0", "r1", "r2", "r3", "r4"]
    assert {answer.counts for answer in answers} == {COUNTS}
    assert len({answer.reply.response_id for answer in answers}) == 5
    assert subject.ask_all([]) == ()


def test_an_event_between_requests_that_overlap_belongs_to_none(subject):
    subject.ask_all([asking("open", f"r{index}", where="process", path="/dev/accel/a") for index in range(3)])
    events = subject.end().trace.events
    assert len(events) == 3
    assert {event.request_id for event in events} <= {"", "r0", "r1", "r2"}


def test_the_log_is_there_line_by_line(subject):
    subject.ask(asking("lines", lines=["one", "two"]))
    assert subject.log_lines()[-2:] == ("one", "two")
    assert not subject.has_exited


@pytest.fixture
def dumping(launcher, model):
    return launcher.start(planned("dump"), model)


def id_of_next(subject) -> str:
    """Ask once, and return the id that the next answer will have."""
    head, _, number = subject.ask(asking()).reply.response_id.rpartition("-")
    return f"{head}-{int(number) + 1}"


def test_an_answer_carries_the_file_of_logits_that_its_arm_left_for_it(dumping):
    name = id_of_next(dumping)
    np.save(dumping.scratch / f"{name}.npy", np.zeros((3, 5), np.float32))
    answer = dumping.ask(asking())
    assert (answer.reply.response_id, answer.failure) == (name, "")
    assert (answer.dump.shape, answer.dump.dtype) == ((3, 5), "<f4")


def test_an_answer_whose_file_of_logits_is_missing_carries_none(dumping):
    answer = dumping.ask(asking())
    assert (answer.status, answer.failure, answer.dump) == (200, "", None)


def test_a_file_of_logits_that_cannot_be_read_is_the_answers_failure(dumping):
    name = id_of_next(dumping)
    (dumping.scratch / f"{name}.npy").write_bytes(b"no array")
    answer = dumping.ask(asking())
    assert (answer.status, answer.dump) == (200, None)
    assert answer.failure.startswith(f"dump: {name}.npy is no array")


def test_an_arm_that_is_described_without_files_of_logits_reads_none(subject):
    (subject.scratch / f"{id_of_next(subject)}.npy").write_bytes(b"no array")
    answer = subject.ask(asking())
    assert (answer.failure, answer.dump) == ("", None)
