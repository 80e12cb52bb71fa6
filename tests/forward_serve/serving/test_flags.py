"""The command line: what is read, and every refusal in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forward_serve.errors import Refusal
from forward_serve.serving.flags import Flags, parse_flags


def flags(*arguments: str) -> Flags:
    return parse_flags(["-m", "dir", *arguments])


def test_a_model_alone_is_a_plain_server_on_the_loopback() -> None:
    assert flags() == Flags(Path("dir"), 8000, "127.0.0.1", None, 0, None, None, 0.0, 3, None)


def test_every_flag_that_is_served_arrives() -> None:
    got = flags(
        *("-p", "0", "--host", "0.0.0.0", "--alias", "tiny", "--backend", "host", "--spec-draft", "pack"),  # noqa: S104
        *("--spec-draft-k", "3", "--spec-fallback", "2.5", "--spec-fallback-window", "5", "--fail-pass", "9"),
    )
    assert got == Flags(Path("dir"), 0, "0.0.0.0", "tiny", 0, Path("pack"), 3, 2.5, 5, 9)  # noqa: S104


def test_a_cache_and_a_dump_arrive_and_are_off_by_themselves() -> None:
    assert (flags().prefix_cache, flags().dump_logits) == (False, None)
    got = flags("--prefix-cache", "--dump-logits", "out", "--spec-lookup", "4")
    assert (got.prefix_cache, got.dump_logits, got.lookup_k) == (True, Path("out"), 4)


def test_a_device_arrives_with_its_backend_alone() -> None:
    assert flags("--backend", "npu", "--device", "/dev/accel/accel0").device == Path("/dev/accel/accel0")
    assert flags("--backend", "host").device is None


def test_lookup_0_is_no_drafter_and_may_stand_beside_a_pack() -> None:
    assert flags("--spec-lookup", "0") == flags()
    assert flags("--spec-lookup", "0", "--spec-draft", "pack").draft == Path("pack")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--frob"], "unrecognized arguments: --frob"),
        (["--spec-look", "4"], "unrecognized arguments: --spec-look 4"),
        (["extra"], "unrecognized arguments: extra"),
        (["-m", "other"], "argument -m: given twice"),
        (["-p", "65536"], "argument -p: '65536' is not a whole number from 0 to 65535"),
        (["-p", "-1"], "argument -p: '-1'"),
        (["-p", "x"], "argument -p: 'x'"),
        (["-p"], "argument -p: expected one argument"),
        (["-p", "1", "-p", "2"], "argument -p: given twice"),
        (["--host", ""], "argument --host: ''"),
        (["--alias", "two words"], "argument --alias: 'two words'"),
        (["--spec-lookup", "-4"], "argument --spec-lookup: '-4'"),
        (["--spec-lookup", "4.5"], "argument --spec-lookup: '4.5'"),
        (["--spec-lookup", "٤"], "argument --spec-lookup"),
        (["--spec-lookup", "4", "--spec-draft", "pack"], "--spec-lookup=4 beside --spec-draft=pack: .* one drafter"),
        (["--spec-draft", ""], "argument --spec-draft: ''"),
        (["--spec-draft", "pack", "--spec-draft-k", "0"], "argument --spec-draft-k: '0' .* at least 1"),
        (["--spec-draft-k", "4"], "--spec-draft-k=4: .* --spec-draft"),
        (["--spec-lookup", "4", "--spec-draft-k", "4"], "--spec-draft-k=4"),
        (["--spec-fallback", "2"], "--spec-fallback=2: there is no drafter"),
        (["--spec-lookup", "0", "--spec-fallback", "2"], "--spec-fallback=2: there is no drafter"),
        (["--spec-lookup", "4", "--spec-fallback", "-1"], "argument --spec-fallback: '-1' .* at least 0"),
        (["--spec-lookup", "4", "--spec-fallback", "nan"], "argument --spec-fallback: 'nan'"),
        (["--spec-lookup", "4", "--spec-fallback", "inf"], "argument --spec-fallback: 'inf'"),
        (["--spec-lookup", "4", "--spec-fallback-window", "5"], "--spec-fallback-window=5: .* --spec-fallback"),
        (["--spec-lookup", "4", "--spec-fallback", "2", "--spec-fallback-window", "0"], "window: '0' .* at least 1"),
        (["--backend", "gpu"], "argument --backend: invalid choice: 'gpu'"),
        (["--backend", "npu"], "--backend=npu: the simulated device needs a path to open; add --device"),
        (["--backend", "npu", "--device", ""], "argument --device: ''"),
        (["--device", "/dev/null"], "--device=/dev/null: the host backend opens no device"),
        (["--backend", "host", "--device", "/dev/null"], "--device=/dev/null: the host backend opens no device"),
        (["--prefix-cache", "--prefix-cache"], "argument --prefix-cache: given twice"),
        (["--prefix-cache=yes"], "argument --prefix-cache: ignored explicit argument 'yes'"),
        (["--dump-logits"], "argument --dump-logits: expected one argument"),
        (["--dump-logits", ""], "argument --dump-logits: ''"),
        (["--fail-pass", "0"], "argument --fail-pass: '0'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_command_line_is_refused_in_one_line(arguments: list[str], said: str) -> None:
    with pytest.raises(Refusal, match=said) as caught:
        flags(*arguments)
    assert "\n" not in str(caught.value)


def test_a_command_line_without_a_model_is_refused() -> None:
    with pytest.raises(Refusal, match="required: -m"):
        parse_flags([])
