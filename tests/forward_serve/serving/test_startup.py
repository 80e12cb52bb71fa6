"""From flags to a served model, on the golden container."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest

from forward_serve.errors import Refusal
from forward_serve.serving.fault import PassFault
from forward_serve.serving.flags import parse_flags
from forward_serve.serving.startup import Loaded, load
from tests.forward_serve.serving.golden import unpack_container, write_pack


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The golden container."""
    return unpack_container(tmp_path / "tiny")


def loaded(tiny: Path, *arguments: str) -> Loaded:
    return load(parse_flags(["-m", str(tiny), *arguments]))


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ([], "backend=host drafter=none k=0 width=16 alias=tiny"),
        (["--spec-lookup", "0"], "backend=host drafter=none k=0 width=16 alias=tiny"),
        (["--spec-lookup", "4", "--alias", "x"], "backend=host drafter=lookup k=4 width=16 alias=x"),
        (["--spec-lookup", "15"], "backend=host drafter=lookup k=15 width=16 alias=tiny"),
        (["--spec-lookup", "40"], "backend=host drafter=lookup k=15 capped-from=40 width=16 alias=tiny"),
        (["--fail-pass", "7"], "backend=host drafter=none k=0 width=16 alias=tiny fail-pass=7"),
        (["--prefix-cache"], "backend=host drafter=none k=0 width=16 alias=tiny prefix-cache=on"),
        (
            ["--spec-lookup", "4", "--prefix-cache", "--fail-pass", "7"],
            "backend=host drafter=lookup k=4 width=16 alias=tiny prefix-cache=on fail-pass=7",
        ),
    ],
    ids=" ".join,
)
def test_the_ready_line_names_drafter_k_width_and_alias(tiny: Path, arguments: list[str], facts: str) -> None:
    assert loaded(tiny, *arguments).ready_facts == facts


@pytest.mark.parametrize(
    ("block_size", "arguments", "k"),
    [
        (6, [], "k=5"),
        (6, ["--spec-draft-k", "5"], "k=5"),
        (6, ["--spec-draft-k", "2"], "k=2"),
        (2, [], "k=1"),
        (17, [], "k=15 capped-from=16"),
        (17, ["--spec-draft-k", "16"], "k=15 capped-from=16"),
    ],
)
def test_a_packs_k_is_its_block_but_one_unless_less_is_asked_for(
    tiny: Path, tmp_path: Path, block_size: int, arguments: list[str], k: str
) -> None:
    pack = write_pack(tmp_path / "pack", seed=10, block_size=block_size)
    got = loaded(tiny, "--spec-draft", str(pack), *arguments)
    assert got.ready_facts == f"backend=host drafter=dflash {k} width=16 alias=tiny"
    assert f"k={got.served.k}" == k.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ([], "drafter=none k=0 width=8 alias=tiny"),
        (["--spec-lookup", "7"], "drafter=lookup k=7 width=8 alias=tiny"),
        (["--spec-lookup", "8"], "drafter=lookup k=7 capped-from=8 width=8 alias=tiny"),
    ],
    ids=" ".join,
)
def test_a_device_is_called_simulated_and_caps_k_at_its_width_but_one(tiny: Path, arguments: list[str], facts: str) -> None:
    got = loaded(tiny, "--backend", "npu", "--device", os.devnull, *arguments)
    assert got.ready_facts == f"backend=npu device=simulated {facts}"


@pytest.mark.parametrize(("block_size", "k"), [(8, "k=7"), (17, "k=7 capped-from=16")])
def test_a_pack_drafts_for_a_device_on_the_host(tiny: Path, tmp_path: Path, block_size: int, k: str) -> None:
    pack = write_pack(tmp_path / "pack", seed=10, block_size=block_size)
    got = loaded(tiny, "--backend", "npu", "--device", os.devnull, "--spec-draft", str(pack))
    assert got.ready_facts == f"backend=npu device=simulated drafter=dflash {k} width=8 alias=tiny"


def test_a_device_is_opened_once_before_ready_and_the_warm_up_is_one_submit(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    node.touch()
    calls: list[str] = []
    opened, ioctl = os.open, fcntl.ioctl

    def recorded_open(path: Path, *arguments: int) -> int:
        calls.extend(["open"] * (path == node))
        return opened(path, *arguments)

    def recorded_ioctl(descriptor: int, request: int) -> object:
        calls.append("submit")
        return ioctl(descriptor, request)

    monkeypatch.setattr(os, "open", recorded_open)
    monkeypatch.setattr(fcntl, "ioctl", recorded_ioctl)
    loaded(tiny, "--backend", "npu", "--device", str(node), "--spec-lookup", "4")
    assert calls == ["open", "submit"]


def test_a_device_that_cannot_be_opened_is_refused_before_the_container_is_read(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-device"
    with pytest.raises(Refusal, match=f"^--device={missing}: No such file or directory; the simulated device is a path"):
        loaded(tmp_path / "no-such-container", "--backend", "npu", "--device", str(missing))


def test_more_drafts_than_a_block_holds_are_refused(tiny: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", seed=10, block_size=6)
    with pytest.raises(Refusal, match=r"--spec-draft-k=6: a block of 6 slots drafts 5 .*; ask for 5 or less"):
        loaded(tiny, "--spec-draft", str(pack), "--spec-draft-k", "6")


def test_a_pack_for_another_target_is_refused(tiny: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", seed=10, num_target_layers=9)
    with pytest.raises(Refusal, match="num_target_layers=9"):
        loaded(tiny, "--spec-draft", str(pack))


def test_the_warm_up_leaves_no_position_and_no_taps_and_comes_before_the_fault(tiny: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", seed=10)
    base = loaded(tiny, "--spec-draft", str(pack), "--fail-pass", "1").served.base
    assert base.num_positions == 0
    assert base.tap_sink is not None
    assert len(base.tap_sink) == 0
    assert isinstance(base.pass_hook, PassFault)  # type: ignore[attr-defined]


def test_a_cached_draft_server_says_that_it_drafts_once_per_chat(tiny: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", seed=10)
    got = loaded(tiny, "--spec-draft", str(pack), "--prefix-cache")
    assert got.ready_facts == "backend=host drafter=dflash k=5 width=16 alias=tiny prefix-cache=on drafts=once-per-chat"


def test_a_dump_directory_is_created_and_said(tiny: Path, tmp_path: Path) -> None:
    got = loaded(tiny, "--dump-logits", str(tmp_path / "out"))
    assert got.ready_facts.endswith(" alias=tiny dump-logits=on")
    assert got.served.dump_directory == tmp_path / "out"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_dump_directory_that_cannot_be_is_refused_by_its_flag(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "none" / "out"):
        with pytest.raises(Refusal, match=f"--dump-logits={path}: .*; give a directory"):
            loaded(tiny, "--dump-logits", str(path))


def test_facts_are_the_containers(tiny: Path) -> None:
    facts = loaded(tiny).facts
    assert (facts.vocab_bound, facts.context_length) == (256, 1024)
    assert facts.encode("Hello") == [39, 68, 75, 75, 78]


def test_the_alias_of_an_odd_directory_is_one_word(tmp_path: Path) -> None:
    directory = unpack_container(tmp_path / "my model é")
    assert re.fullmatch("[!-~]+", loaded(directory).facts.alias)
