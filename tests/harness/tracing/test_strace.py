"""strace's log as values: what each kind of line becomes, and that nothing is silently dropped."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tracing.strace import CALLS, parse, tracer_argv, unescape

AT = "1795993576.159299"


def log(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def only_call(line: str):
    parsed = parse(log(f"7     {AT} {line}"))
    assert parsed.unparsed == []
    (call,) = parsed.calls
    return call


def test_every_traced_call_is_in_the_command_line():
    argv = tracer_argv("/usr/bin/strace", "/w/log")
    assert argv[argv.index("-o") + 1] == "/w/log"
    assert f"trace={','.join(CALLS)}" in argv


@pytest.mark.parametrize(
    ("line", "name", "path", "folder", "result", "result_path"),
    [
        ('open("/a", O_RDWR) = 4</a>', "open", "/a", "", "4", "/a"),
        ('creat("/a", 0644) = 3</a>', "creat", "/a", "", "3", "/a"),
        (
            'openat(AT_FDCWD</w>, "b", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)',
            *("openat", "b", "/w", "-1 ENOENT", ""),
        ),
        ('openat(5</w>, "b", O_RDONLY) = 3</w/b>(deleted)', "openat", "b", "/w", "3", "/w/b"),
        ('openat2(AT_FDCWD</w>, "/c", {flags=O_RDONLY, resolve=0}, 24) = 3</c>', "openat2", "/c", "/w", "3", "/c"),
        ("openat(AT_FDCWD</w>, NULL, O_RDONLY) = -1 EFAULT (Bad address)", "openat", "", "/w", "-1 EFAULT", ""),
        ("openat(AT_FDCWD</w>, 0x7f12, O_RDONLY) = -1 EFAULT (Bad address)", "openat", "", "/w", "-1 EFAULT", ""),
        (
            r'open_by_handle_at(5</m>, {handle_bytes=8, handle_type=1, f_handle="\xb5\xc0"}, O_RDONLY) = 6',
            *("open_by_handle_at", "", "/m", "6", ""),
        ),
        (
            "ioctl(3</dev/accel/accel0>, _IOC(_IOC_NONE, 0xa5, 0x1, 0), 0) = -1 ENOTTY (Inappropriate ioctl for device)",
            *("ioctl", "", "/dev/accel/accel0", "-1 ENOTTY", ""),
        ),
        (
            "io_uring_setup(4, {flags=0, sq_off={head=0}}) = 7<anon_inode:[io_uring]>",
            "io_uring_setup",
            "",
            "",
            "7",
            "anon_inode:[io_uring]",
        ),
        ('openat(AT_FDCWD</w>, "/a", O_RDONLY <unfinished ...>) = ?', "openat", "/a", "/w", "?", ""),
        (
            'openat(AT_FDCWD</w>, "/a", O_RDONLY) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)',
            "openat",
            "/a",
            "/w",
            "? ERESTARTSYS",
            "",
        ),
    ],
)
def test_a_line_becomes_a_call(line, name, path, folder, result, result_path):
    call = only_call(line)
    assert (call.name, call.path, call.folder, call.result, call.result_path) == (name, path, folder, result, result_path)


@pytest.mark.parametrize(
    ("line", "child"),
    [
        ("clone(child_stack=NULL, flags=SIGCHLD, child_tidptr=0x7f) = 6", 6),
        ("clone(child_stack=NULL, flags=SIGCHLD, child_tidptr=0x7f) = 2 /* 17 in strace's PID NS */", 17),
        ("clone3({flags=CLONE_VM} => {parent_tid=[4 /* 9 in strace's PID NS */]}, 88) = 4 /* 9 in strace's PID NS */", 9),
        ("vfork()         = 5 /* 10 in strace's PID NS */", 10),
        ("fork() = -1 EAGAIN (Resource temporarily unavailable)", None),
    ],
)
def test_a_clone_names_its_child_as_the_tracer_numbers_it(line, child):
    assert only_call(line).child == child


def test_two_halves_of_a_call_that_another_thread_interrupts_are_one_call_where_it_began():
    parsed = parse(
        log(
            f'8     {AT} openat(AT_FDCWD</w>, "/a", O_RDONLY <unfinished ...>',
            f'9     {AT} openat(AT_FDCWD</w>, "/b", O_RDONLY <unfinished ...>',
            f"8     {AT} <... openat resumed>) = 3</a>",
            f"9     {AT} <... openat resumed>) = -1 ENOENT (No such file or directory)",
        ),
        offset=100,
    )
    assert parsed.unparsed == []
    assert [(call.tid, call.path, call.result) for call in parsed.calls] == [(8, "/a", "3"), (9, "/b", "-1 ENOENT")]
    assert parsed.calls[0].offset == 100


def test_an_open_that_its_thread_never_came_back_from_is_a_call():
    parsed = parse(log(f'8     {AT} openat(AT_FDCWD</w>, "/a", O_RDWR <unfinished ...>', f"8     {AT} +++ killed by SIGKILL +++"))
    assert [(call.path, call.result) for call in parsed.calls] == [("/a", "?")]
    assert list(parsed.ends) == [8]


@pytest.mark.parametrize(
    "line",
    [
        "+++ exited with 0 +++",
        "+++ killed by SIGKILL +++",
        "+++ killed by SIGSEGV (core dumped) +++",
    ],
)
def test_a_thread_s_end_is_known_by_its_line(line):
    parsed = parse(log(f"12    {AT} {line}"))
    assert (parsed.unparsed, parsed.ends) == ([], {12: [0]})


@pytest.mark.parametrize("line", ["--- SIGTERM {si_signo=SIGTERM, si_pid=1} ---", "+++ superseded by execve in pid 12 +++"])
def test_signals_and_execs_of_threads_are_understood_and_are_no_calls(line):
    parsed = parse(log(f"12    {AT} {line}"))
    assert (parsed.unparsed, parsed.calls, parsed.ends) == ([], [], {})


@pytest.mark.parametrize(
    "line",
    [
        f'7<python3> {AT} openat(AT_FDCWD</w>, "/a", O_RDONLY) = 3</a>',
        f'7     {AT} openat(AT_FDCWD</w>, "/a", O_RDONLY',
        f"7     {AT} read(3</a>, 0x7f, 1) = 1",
        f"7     {AT} <... openat resumed>) = 3</a>",
        "[ Process PID=7 runs in 32 bit mode. ]",
        "",
    ],
)
def test_a_line_that_is_not_understood_is_returned(line):
    assert parse(log(line)).unparsed == [line]


def test_a_line_without_its_end_is_returned():
    whole = log(f"7     {AT} +++ exited with 0 +++")
    assert parse(whole[:-1]).unparsed == [whole[:-1].decode()]


def test_a_file_name_that_imitates_a_result_misleads_nobody():
    call = only_call(r'openat(AT_FDCWD</w>, "x\", 0) = 9</dev/accel/accel0>", O_RDONLY) = -1 ENOENT (No such file or directory)')
    assert (call.path, call.result) == ('x", 0) = 9</dev/accel/accel0>', "-1 ENOENT")


def as_strace_prints(content: bytes) -> str:
    """Escape as strace 6.1 does in paths: printable ASCII as it is, the rest as letters or shortest octal."""
    letters = {7: "\\7", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    text = ""
    for index, byte in enumerate(content):
        follows_digit = content[index + 1 : index + 2].isdigit()
        plain = chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" if follows_digit else f"\\{byte:o}"
        text += f"\\{byte:03o}" if byte == 7 and follows_digit else letters.get(byte, plain)
    return text


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=40).filter(lambda content: b"\0" not in content))
def test_any_file_name_comes_back_as_it_was(content):
    assert unescape(as_strace_prints(content)) == os.fsdecode(content)
    call = only_call(f'openat(AT_FDCWD</w>, "{as_strace_prints(content)}", O_RDONLY) = -1 ENOENT (No such file or directory)')
    assert call.path == os.fsdecode(content)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=120))
def test_parsing_never_raises_and_accounts_for_every_line(content):
    parsed = parse(content)
    assert len(parsed.unparsed) == len([*content.split(b"\n")[:-1], *filter(None, content.split(b"\n")[-1:])])
