"""Damaged files: each is refused by name, or served with speculation exactly as without. Never a traceback, never a hang.

A container whose weights changed is another model, and says another thing; with a drafter it must say the same as without. A pack
whose weights changed drafts badly: the reply is that of a server without it.
"""

from __future__ import annotations

import enum
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import Refusal
from forward_serve.serving.engine import Engine
from forward_serve.serving.flags import parse_flags
from forward_serve.serving.request import Endpoint, Request, SamplingParams
from forward_serve.serving.speclog import Ending
from forward_serve.serving.startup import load
from tests.forward_serve.serving.golden import unpack_container, write_pack
from tests.forward_serve.serving.toy import Listener

NUM_CASES = int(os.environ.get("BAD_FILES", "100"))  # of each test; nightly sets more
PATIENCE_S = 20
PROMPT = (10, 20, 30, 10, 20, 30, 10, 20)  # it repeats, so that lookup drafts
CONTAINER_FILES = ("model.q4nx", "config.json", "tokenizer.json", "tokenizer_config.json")
PACK_FILES = ("model.safetensors", "config.json")


class Kind(enum.Enum):
    """How a file is damaged."""

    CUT = "its end is missing"
    ZEROED = "a part of it is zero"
    FLIPPED = "one bit is wrong"
    GROWN = "something follows its end"
    DOUBLED = "a part of it stands twice"


@dataclass(frozen=True)
class Damage:
    """One damage of one file."""

    file: str
    kind: Kind
    place: float  # share of the file before it
    size: int

    def apply(self, directory: Path) -> None:
        path = directory / self.file
        whole = path.read_bytes()
        at = min(int(self.place * len(whole)), len(whole) - 1)
        path.unlink()  # the copy may be a link
        path.write_bytes(self._damaged(whole, at))

    def _damaged(self, whole: bytes, at: int) -> bytes:
        size = self.size
        match self.kind:
            case Kind.CUT:
                return whole[:at]
            case Kind.ZEROED:
                return whole[:at] + bytes(len(whole[at : at + size])) + whole[at + size :]
            case Kind.FLIPPED:
                return whole[:at] + bytes([whole[at] ^ 1 << size % 8]) + whole[at + 1 :]
            case Kind.GROWN:
                return whole + bytes([at % 256]) * size
            case Kind.DOUBLED:
                return whole[: at + size] + whole[at:]


def damages(files: tuple[str, ...]) -> st.SearchStrategy[Damage]:
    """Damages near a file's beginning, where its sizes are told, as often as anywhere else."""
    places = st.one_of(st.floats(0, 0.02), st.floats(0, 1))
    return st.builds(Damage, st.sampled_from(files), st.sampled_from(Kind), places, st.integers(1, 4096))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A container and a pack, undamaged."""
    directory = tmp_path_factory.mktemp("whole")
    unpack_container(directory / "tiny")
    write_pack(directory / "pack", seed=10)
    return directory


@contextmanager
def damaged(whole: Path, room: str, damage: Damage) -> Iterator[Path]:
    """A copy of container and pack with one file of one of them damaged."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(whole, copy, copy_function=os.link)
        damage.apply(copy / room)
        yield copy


@contextmanager
def patience() -> Iterator[None]:
    """Turn a hang into a failure."""

    def hang(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {PATIENCE_S} s")

    former = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def reply(directory: Path, *arguments: str) -> tuple[Any, ...] | str:
    """Start as the engine does and answer one request: the reply, or the line that refuses to start."""
    try:
        with np.errstate(all="ignore"):  # weights without sense are no fault of the forward
            served = load(parse_flags(["-m", str(directory / "tiny"), *arguments])).served
            request = Request(Endpoint.COMPLETION, PROMPT, 12, SamplingParams(temperature=0), ignore_eos=True)
            outcome = Engine(served, lambda _line: None, lambda: False).answer(request, "cmpl-1", Listener())
    except Refusal as refusal:
        return str(refusal)
    assert (outcome.ending, outcome.failure) == (Ending.REPLY, "")
    deliver = outcome.deliver
    return deliver.ids, deliver.text, deliver.finish_reason, deliver.stop_reason


def assert_named(refusal: str, directory: Path) -> None:
    assert "\n" not in refusal
    assert str(directory) in refusal or refusal.startswith(("config.json: ", "tokenizer"))


@settings(deadline=None, max_examples=NUM_CASES)
@given(damage=damages(CONTAINER_FILES))
def test_a_damaged_container_is_refused_by_name_or_served_with_a_drafter_as_without(whole: Path, damage: Damage) -> None:
    with damaged(whole, "tiny", damage) as directory, patience():
        plain = reply(directory)
        assert reply(directory, "--spec-lookup", "4") == plain
        if isinstance(plain, str):
            assert_named(plain, directory / "tiny")


@settings(deadline=None, max_examples=NUM_CASES)
@given(damage=damages(PACK_FILES))
def test_a_damaged_pack_is_refused_by_name_or_changes_no_token(whole: Path, damage: Damage) -> None:
    with damaged(whole, "pack", damage) as directory, patience():
        drafted = reply(directory, "--spec-draft", str(directory / "pack"))
        if isinstance(drafted, str):
            assert_named(drafted, directory / "pack")
        else:
            assert drafted == reply(whole)


def test_a_cut_file_is_refused_and_a_flipped_bit_of_a_weight_makes_another_model(whole: Path) -> None:
    with damaged(whole, "tiny", Damage("model.q4nx", Kind.CUT, 0.5, 1)) as directory:
        assert isinstance(reply(directory), str)
    with damaged(whole, "tiny", Damage("model.q4nx", Kind.ZEROED, 0.5, 200_000)) as directory:
        other = reply(directory)
        assert not isinstance(other, str)
        assert other != reply(whole)


SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim")


@pytest.mark.parametrize(
    ("room", "key"), [("tiny", "max_position_embeddings"), *((room, key) for room in ("tiny", "pack") for key in SIZES)]
)
@pytest.mark.parametrize("value", [2 * 10**6, 10**12, 10**30])
def test_sizes_that_no_machine_holds_are_refused_by_name(whole: Path, room: str, key: str, value: int) -> None:
    with changed_config(whole, room, {key: value}) as directory, patience():
        refusal = reply(directory, "--spec-draft", str(directory / "pack"))
        assert isinstance(refusal, str)
        assert_named(refusal, directory / room)


@contextmanager
def changed_config(whole: Path, room: str, changes: dict[str, object]) -> Iterator[Path]:
    """A copy of container and pack with keys of one config.json changed."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(whole, copy)
        path = copy / room / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        yield copy


def test_the_undamaged_files_are_served_alike_three_ways(whole: Path) -> None:
    plain = reply(whole)
    assert not isinstance(plain, str)
    assert reply(whole, "--spec-lookup", "4") == reply(whole, "--spec-draft", str(whole / "pack")) == plain
