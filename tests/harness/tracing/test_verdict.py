"""From a tracer's log to what a subject opened, and to every reason for not believing it."""

import pytest

from harness.tracing.verdict import Bracket, Evidence, is_watched, judge

WATCHED = ("/dev/accel*", "*amdxdna*")
HOLDING = ("/models/tiny", "/packs/mixed")
KEEPER, GUARD, SUBJECT = 5, 6, 7
ENOENT = "-1 ENOENT (No such file or directory)"


def line(tid, text):
    return f"{tid}     1795993576.159299 {text}"


def opening(tid, path, result=ENOENT, folder="/w"):
    return line(tid, f'openat(AT_FDCWD<{folder}>, "{path}", O_RDONLY|O_CLOEXEC) = {result}')


START, END = opening(KEEPER, "/start"), opening(KEEPER, "/end")
BIRTH = (
    line(KEEPER, "clone(child_stack=NULL, flags=SIGCHLD) = 6"),
    line(GUARD, "clone(child_stack=NULL, flags=SIGCHLD) = 2 /* 7 in strace's PID NS */"),
)
DEATH = (line(SUBJECT, "+++ killed by SIGKILL +++"), line(GUARD, "+++ exited with 0 +++"))


def life(*lines):
    """A whole stay around what the subject does."""
    return (START, *BIRTH, *lines, *DEATH, END)


def trace(*lines, problems=(), is_whole=False, brackets=()):
    content = "".join(f"{one}\n" for one in lines).encode()
    evidence = Evidence(content, 1000, "/start", "/end", problems, is_whole)
    return judge(evidence, WATCHED, HOLDING, brackets)


def test_a_subject_that_opens_nothing_watched_leaves_no_event_and_is_believed():
    got = trace(*life(opening(SUBJECT, "/etc/passwd", "3</etc/passwd>")))
    assert (got.traced, got.blind, got.events, got.num_opens) == (True, (), (), 1)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (opening(SUBJECT, "/dev/accel/accel0"), "/dev/accel/accel0"),
        (opening(SUBJECT, "/dev/accel/accel0", "-1 EACCES (Permission denied)"), "/dev/accel/accel0"),
        (opening(SUBJECT, "accel0", folder="/dev/accel"), "/dev/accel/accel0"),
        (opening(SUBJECT, "/dev/../dev//accel/accel0"), "/dev/accel/accel0"),
        (opening(SUBJECT, "/w/link", "3</dev/accel/accel0>"), "/dev/accel/accel0"),
        (opening(SUBJECT, "/lib/libamdxdna.so"), "/lib/libamdxdna.so"),
        (line(SUBJECT, f'open("accel0", O_RDWR) = {ENOENT}'), "accel0"),
        (line(SUBJECT, "ioctl(3</dev/accel/accel0>, _IOC(_IOC_NONE, 0xa5, 1, 0), 0) = 0"), "/dev/accel/accel0"),
        (line(SUBJECT, "open_by_handle_at(5</mnt>, {handle_bytes=8}, O_RDONLY) = 6"), "/mnt"),
        (line(SUBJECT, "io_uring_setup(4, {flags=0}) = -1 EPERM (Operation not permitted)"), "anon_inode:[io_uring]"),
        (line(SUBJECT, 'openat(AT_FDCWD</w>, "/dev/accel/accel0", O_RDWR <unfinished ...>'), "/dev/accel/accel0"),
    ],
)
def test_an_attempt_on_a_watched_path_is_an_event_whatever_it_returns(call, path):
    got = trace(*life(call))
    assert (got.blind, [event.path for event in got.events]) == ((), [path])


@pytest.mark.parametrize(
    "call",
    [
        opening(SUBJECT, "/devices/accel"),
        opening(SUBJECT, "accel0", folder="/home"),
        line(SUBJECT, f'open("weights", O_RDWR) = {ENOENT}'),
        line(SUBJECT, 'open("accel0", O_RDWR) = 3</home/accel0>'),
        line(SUBJECT, "ioctl(3</dev/null>, TCGETS, 0x7f) = -1 ENOTTY (Inappropriate ioctl for device)"),
        opening(KEEPER, "/dev/accel/accel0"),
    ],
)
def test_an_open_of_something_else_or_by_the_keeper_is_no_event(call):
    assert trace(*life(call)).events == ()


def test_what_happened_before_the_start_and_after_the_end_is_not_the_subject_s():
    stray = opening(99, "/dev/accel/accel0")
    got = trace(stray, line(99, "+++ exited with 0 +++"), *life(), stray)
    assert (got.events, got.num_opens) == ((), 0)


def test_a_child_that_opens_the_watched_path_is_the_subject_s():
    child = 8
    got = trace(
        *life(
            line(SUBJECT, "clone(child_stack=NULL, flags=SIGCHLD) = 3 /* 8 in strace's PID NS */"),
            opening(child, "/dev/accel/accel0"),
            line(child, "+++ exited with 0 +++"),
        )
    )
    assert (got.blind, [event.tid for event in got.events]) == ((), [child])


def test_opened_paths_are_those_of_models_packs_and_devices_once_for_each_open():
    got = trace(
        *life(
            opening(SUBJECT, "/models/tiny/model.q4nx", "3</models/tiny/model.q4nx>"),
            opening(SUBJECT, "/models/tiny/model.q4nx", "4</models/tiny/model.q4nx>"),
            opening(SUBJECT, "/models/tiny/missing"),
            opening(SUBJECT, "/models/tiny-2/model.q4nx", "5</models/tiny-2/model.q4nx>"),
            opening(SUBJECT, "/lib/libc.so.6", "6</lib/libc.so.6>"),
            opening(SUBJECT, "/dev/accel/accel0", "7</dev/accel/accel0>"),
        )
    )
    assert got.opened == ("/models/tiny/model.q4nx", "/models/tiny/model.q4nx", "/dev/accel/accel0")
    assert got.num_opens == 6


def test_an_event_belongs_to_the_one_request_whose_bracket_holds_it():
    lines = life(opening(SUBJECT, "/dev/accel/accel0"))
    place = 1000 + sum(len(one) + 1 for one in lines[:3])
    first, second = Bracket("r1", place - 50, place), Bracket("r2", place, place + 50)
    assert trace(*lines, brackets=(first, second)).events[0].request_id == "r2"
    overlapping = Bracket("r3", place - 10, place + 10)
    assert trace(*lines, brackets=(second, overlapping)).events[0].request_id == ""
    assert trace(*lines, brackets=(first,)).events[0].request_id == ""


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (life()[1:], "start nonce"),
        (life()[:-1], "end nonce"),
        ((*life()[:-1], opening(9, "/end")), "not the same keeper"),
        ((*life(), "7<python3> 1.5 x"), "cannot be read"),
        ((START, *BIRTH, DEATH[1], END), "thread 7 has no exit line"),
        ((START, BIRTH[0], DEATH[1], opening(12, "/etc/x"), END), "thread 12 has no exit line"),
        ((START, *BIRTH, DEATH[1], END, DEATH[0]), "thread 7 ended after"),
        ((), "start nonce"),
    ],
)
def test_a_tracer_that_lost_something_is_blind(lines, reason):
    assert any(reason in why for why in trace(*lines).blind)


def test_what_the_column_saw_of_its_tracer_is_passed_on():
    assert trace(*life(), problems=("the tracer said: No space left on device",)).blind == (
        "the tracer said: No space left on device",
    )


def test_a_whole_log_without_the_keeper_s_end_is_blind():
    assert any("keeper has no exit line" in why for why in trace(*life(), is_whole=True).blind)
    assert trace(*life(), line(KEEPER, "+++ exited with 0 +++"), is_whole=True).blind == ()


def test_a_thread_number_that_is_used_again_needs_an_exit_line_for_each_life():
    first = line(SUBJECT, "clone(child_stack=NULL, flags=SIGCHLD) = 3 /* 8 in strace's PID NS */")
    end = line(8, "+++ exited with 0 +++")
    assert trace(*life(first, end, first, end)).blind == ()
    assert trace(*life(first, end, first)).blind == ("thread 8 has no exit line: the tracer lost it",)


def test_an_exit_line_before_the_line_of_the_clone_that_made_the_thread_counts():
    assert trace(*life(opening(8, "/x"), line(8, "+++ exited with 0 +++"), line(SUBJECT, "vfork() = 8"))).blind == ()


def test_a_star_crosses_slashes_and_case_matters():
    assert is_watched("/sys/bus/pci/drivers/amdxdna/x", WATCHED)
    assert not is_watched("/dev/ACCEL", WATCHED)
