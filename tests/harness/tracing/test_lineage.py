"""Whose thread opened a path: the subject's own process, or one that it started."""

import pytest

from harness.tracing.lineage import Lineage
from harness.tracing.strace import Log, parse
from harness.tracing.verdict import Evidence, judge

KEEPER, GUARD, SUBJECT = 5, 6, 7
THREAD_FLAGS = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM|CLONE_SETTLS"


def line(tid: int, text: str) -> str:
    return f"{tid}     1795993576.159299 {text}"


def fork(parent: int, child: int) -> str:
    return line(parent, f"clone(child_stack=NULL, flags=SIGCHLD) = 2 /* {child} in strace's PID NS */")


def thread(parent: int, child: int) -> str:
    flags = f"{{flags={THREAD_FLAGS}, child_tid=0x7f, stack=0x7f, tls=0x7f}} => {{parent_tid=[{child}]}}"
    return line(parent, f"clone3({flags}, 88) = 3 /* {child} in strace's PID NS */")


def opens(tid: int) -> str:
    return line(tid, 'openat(AT_FDCWD</w>, "/x", O_RDONLY) = 3</x>')


BIRTH = (fork(KEEPER, GUARD), fork(GUARD, SUBJECT))


def logged(*lines: str) -> Log:
    return parse("".join(f"{one}\n" for one in lines).encode())


def of_last_open(*lines: str) -> bool:
    log = logged(*lines)
    call = [call for call in log.calls if call.path == "/x"][-1]
    return Lineage(log.calls, KEEPER).is_subject(call.tid, call.offset)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        ((*BIRTH, opens(SUBJECT)), True),
        ((*BIRTH, thread(SUBJECT, 8), opens(8)), True),
        ((*BIRTH, thread(SUBJECT, 8), thread(8, 9), opens(9)), True),
        ((*BIRTH, fork(SUBJECT, 8), opens(8)), False),
        ((*BIRTH, thread(SUBJECT, 8), fork(8, 9), opens(9)), False),
        ((*BIRTH, fork(SUBJECT, 8), thread(8, 9), opens(9)), False),
        ((*BIRTH, line(SUBJECT, "vfork() = 8"), opens(8)), False),
        ((*BIRTH, opens(GUARD)), False),
        ((fork(KEEPER, GUARD), opens(GUARD)), False),
        ((*BIRTH, opens(12)), False),  # nobody made it
        ((BIRTH[1], opens(SUBJECT)), False),  # nobody made its guard
    ],
    ids=[
        *("subject", "thread", "thread of a thread", "child", "child of a thread", "thread of a child", "vfork"),
        *("guard", "guard alone", "unknown", "unknown guard"),
    ],
)
def test_the_subject_s_own_process_is_two_forks_from_the_keeper_and_threads_are_none(lines: tuple[str, ...], want: bool) -> None:
    assert of_last_open(*lines) is want


def test_a_number_that_is_used_again_is_who_was_made_last_before_the_call() -> None:
    assert of_last_open(*BIRTH, fork(SUBJECT, 8), thread(SUBJECT, 8), opens(8)) is True
    assert of_last_open(*BIRTH, thread(SUBJECT, 8), fork(SUBJECT, 8), opens(8)) is False


def test_a_clone_whose_line_comes_after_its_child_s_first_still_made_it() -> None:
    assert of_last_open(*BIRTH, opens(8), thread(SUBJECT, 8)) is True
    assert of_last_open(opens(SUBJECT), *BIRTH) is True


def test_threads_that_made_each_other_in_a_damaged_log_are_nobody_s() -> None:
    assert of_last_open(opens(8), thread(9, 8), thread(8, 9)) is False


@pytest.mark.parametrize(("birth", "want"), [(thread(SUBJECT, 8), False), (fork(SUBJECT, 8), True)], ids=["thread", "child"])
def test_an_event_says_whether_a_child_made_it(birth: str, want: bool) -> None:
    submit = line(8, "ioctl(3</dev/accel/accel0>, _IOC(_IOC_NONE, 0xd5, 0x1, 0), 0) = -1 ENOTTY (Inappropriate ioctl for device)")
    lines = (line(KEEPER, 'openat(AT_FDCWD</w>, "/start", O_RDONLY) = -1 ENOENT (No such file)'), *BIRTH, birth, submit)
    content = "".join(f"{one}\n" for one in lines).encode()
    (event,) = judge(Evidence(content, 0, "/start", "/end"), ("/dev/accel*",), ()).events
    assert (event.call, event.by_child) == ("ioctl", want)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        ((opens(SUBJECT),), False),  # the wrapper itself
        ((fork(SUBJECT, 8), opens(8)), True),
        ((thread(SUBJECT, 8), opens(8)), False),
        ((fork(SUBJECT, 8), thread(8, 9), opens(9)), True),
        ((fork(SUBJECT, 8), fork(8, 9), opens(9)), False),
    ],
    ids=["wrapper", "subject", "thread of the wrapper", "thread of the subject", "child of the subject"],
)
def test_behind_a_wrapper_the_subject_is_one_fork_further(lines: tuple[str, ...], want: bool) -> None:
    log = logged(*BIRTH, *lines)
    call = [call for call in log.calls if call.path == "/x"][-1]
    assert Lineage(log.calls, KEEPER, is_wrapped=True).is_subject(call.tid, call.offset) is want
