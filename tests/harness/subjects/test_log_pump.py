"""The log as it is written: nothing that was written before a drain is missing after it."""

import os
import threading
import time

import pytest

from harness.subjects import log_pump
from harness.subjects.log_pump import LogPump


class Log:
    """A pump on a pipe of ours; a second pipe plays the pidfd."""

    def __init__(self):
        self.pipe, self.writer = os.pipe()
        self.life, self.death = os.pipe()
        self.pump = LogPump(self.pipe, self.life)
        self.open = True

    def write(self, content: bytes) -> None:
        os.write(self.writer, content)

    def end(self) -> None:
        if self.open:
            self.open = False
            os.close(self.writer)
            os.close(self.death)


@pytest.fixture
def log():
    one = Log()
    yield one
    one.end()
    one.pump.stop()
    os.close(one.pipe)
    os.close(one.life)


def never(_lines: list[str]) -> bool:
    return False


def soon() -> float:
    return time.monotonic() + 5


def test_what_was_written_before_a_drain_is_there_after_it(log):
    for index in range(500):
        log.write(f"line {index}\n".encode())
        log.pump.drain()
        assert log.pump.lines()[-1] == f"line {index}"


def test_a_begun_line_is_shown_and_completed(log):
    log.write(b"a\nb")
    log.pump.drain()
    assert (log.pump.lines(), log.pump.num_lines) == (("a", "b"), 1)
    log.write(b"c\r\n\xff\n")
    log.pump.drain()
    assert log.pump.lines() == ("a", "bc", "\ufffd")


def test_a_line_that_comes_later_wakes_who_waits_for_it(log):
    writer = threading.Timer(0.02, log.write, (b"[ready]\n",))
    writer.start()
    assert log.pump.wait_for(lambda lines: "[ready]" in lines, 0, soon())
    writer.join()


def test_waiting_looks_at_lines_from_a_mark_on(log):
    log.write(b"a\n")
    log.pump.drain()
    assert not log.pump.wait_for(lambda lines: "a" in lines, 1, time.monotonic() + 0.01)
    assert log.pump.wait_for(lambda lines: "a" in lines, 0, time.monotonic())


def test_the_end_of_the_subject_ends_the_waiting_with_its_last_words_read(log):
    log.write(b"last words")
    threading.Timer(0.02, log.end).start()
    assert not log.pump.wait_for(never, 0, soon())
    assert log.pump.has_ended
    assert log.pump.lines() == ("last words",)


def test_a_closed_log_is_not_the_end_of_the_subject(log):
    os.close(log.writer)
    log.writer = os.open(os.devnull, os.O_WRONLY)
    assert not log.pump.wait_for(never, 0, time.monotonic() + 0.05)
    assert not log.pump.has_ended


def test_a_line_without_end_is_cut_and_a_log_without_end_is_dropped_from_its_limit_on(log, monkeypatch):
    monkeypatch.setattr(log_pump, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(log_pump, "MAX_LOG_BYTES", 10_000)
    for _ in range(30):
        log.write(b"x" * 1001)
        log.pump.drain()
    lines = log.pump.lines()
    assert lines[0] == "x" * 1001
    assert lines[-1] == "(the log is cut here: more than 0 MiB)"
    assert len(lines) == 11


def test_many_who_wait_are_all_woken(log):
    found = []

    def wait(index: int) -> None:
        found.append(log.pump.wait_for(lambda lines: f"id={index}" in lines, 0, soon()))

    waiters = [threading.Thread(target=wait, args=(index,)) for index in range(8)]
    for waiter in waiters:
        waiter.start()
    for index in range(8):
        log.write(f"id={index}\n".encode())
        log.pump.drain()
    for waiter in waiters:
        waiter.join()
    assert found == [True] * 8
