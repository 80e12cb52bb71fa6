"""The control of the tracer, with a tracer of paper: what it plans, and what it believes."""

import json

import pytest

from harness.errors import UsageError
from harness.records.recording import Trace
from harness.tracing.decoys import UNWATCHED, control, plan_opens
from harness.tracing.verdict import is_watched

WATCHED = ("/dev/accel*", "*amdxdna*")


class PaperTracer:
    """Says that it saw what it is told to say."""

    def __init__(self, *opened):
        self.opened = opened
        self.orders = None

    def trace_program(self, argv, watched, holding):
        assert watched
        assert holding
        self.orders = json.loads(argv[-1])
        return Trace(traced=True, opened=self.opened, num_opens=9)


def test_each_pattern_is_opened_in_every_way_and_each_way_has_its_own_path(tmp_path):
    opens = plan_opens(WATCHED, tmp_path)
    paths = [path for _, path in opens]
    assert len(set(paths)) == len(paths)
    for way in ("openat", "openat2", "relative", "child", "thread"):
        assert sum(name == way for name, _ in opens) == len(WATCHED)
    assert {"open_by_handle_at", "io_uring_setup"} <= {name for name, _ in opens}


def test_no_decoy_of_a_path_exists_and_none_could_be_made(tmp_path):
    for way, path in plan_opens(WATCHED, tmp_path):
        if way not in ("open_by_handle_at", "io_uring_setup"):
            assert is_watched(path, WATCHED)
            assert not (tmp_path / path).parent.exists()


def test_the_expected_paths_are_those_that_the_program_is_told_to_open(tmp_path):
    tracer = PaperTracer(str(tmp_path / UNWATCHED))
    trace, expected = control(tracer, WATCHED, tmp_path)
    assert [path for _, path in tracer.orders["opens"]] == list(expected)
    assert trace.blind == ()


def test_a_tracer_that_did_not_see_the_unwatched_open_is_blind(tmp_path):
    trace, _ = control(PaperTracer(), WATCHED, tmp_path)
    assert trace.blind == ("the open of the unwatched decoy is not in the tracer's log",)


def test_patterns_that_leave_nothing_unwatched_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no path is left unwatched"):
        control(PaperTracer(), ("*",), tmp_path)


def test_a_pattern_that_no_decoy_can_match_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no decoy can match; end a pattern with \*"):
        plan_opens(("/dev/accel/accel0",), tmp_path)
