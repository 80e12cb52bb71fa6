"""From files and plain replies to expectations: on the golden container, with small random packs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.errors import FileFormatError
from harness.oracle.container64 import read_container
from harness.oracle.expect import Oracle
from harness.oracle.packs import Journey, pack_path
from harness.oracle.predict import pack_rules, predict, said_by
from harness.oracle.qwen3_64 import Qwen3
from harness.plans.requests import completion
from harness.plans.starts import draft
from harness.records.expectation import Expectations
from harness.records.fixture import Stream
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Declared, Recording, Reply, Run, Trace
from tests.harness.oracle.golden import HELLO, edit_config, unpacked, write_pack

PROMPT = Stream("hello", "main", HELLO, ())
DECLARED = Declared(
    arms={
        "plain": ArmFacts(),
        "draft": ArmFacts(drafter="dflash", oracle="dflash"),
        "dump": ArmFacts(drafter="dflash", oracle="dflash", dumps_logits=True),
        "silent": ArmFacts(drafter="dflash", oracle="dflash", expect="not-engaged"),
    }
)
PLAIN = Start("plain", "plain", "tiny", ())
DRAFT = draft("golden", "random")


@dataclass
class Files:
    """The directories of a test, and how often each was asked for."""

    root: Path
    asked: list[str]

    def model(self, name: str) -> Path:
        self.asked.append(name)
        directory = self.root / name
        if not directory.is_dir():
            unpacked(directory)
            if "context" in name:
                edit_config(directory, max_position_embeddings=8)
        return directory

    def pack(self, name: str) -> Path:
        self.asked.append(name)
        directory = self.root / f"pack-{name}"
        return directory if directory.is_dir() else write_pack(directory, seed=len(name))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("fixture"), [])


@pytest.fixture(scope="module")
def reply_ids(files: Files) -> tuple[int, ...]:
    """What the golden container says after its prompt, token by token."""
    model, ids = Qwen3(read_container(files.model("tiny"))), list(HELLO)
    for _ in range(8):
        (passed,) = model.forward([tuple(ids)])
        ids.append(int(np.argmax(passed.scores[-1])))
    return tuple(ids[len(HELLO) :])


def asks(budget: int, check: str = "exact-drafts", **fields: Any) -> Request:
    return completion(PROMPT, budget, check, **fields)


def said(request: Request, ids: tuple[int, ...], status: int = 200) -> Answer:
    return Answer(request.id, status, reply=Reply("c", "", ids, "length", None, len(HELLO), len(ids)))


def run_of(*starts: Start, replies: dict[str, tuple[int, ...]]) -> Run:
    """A run in which every start gave these replies by request id."""
    recordings = tuple(
        Recording("toy", start, tuple(said(request, replies[request.id]) for request in start.requests), Trace(True), (), None)
        for start in starts
    )
    return Run(Plan(Tier.GATE, "tiny@test", starts, ()), "toy", DECLARED, recordings)


def asked(start: Start, *requests: Request) -> Start:
    return msgspec.structs.replace(start, requests=requests)


def expected(files: Files, run: Run) -> Expectations:
    got = Oracle(files).completed(run).expectations
    assert got is not None
    return got


def test_blocks_are_known_wherever_a_walk_over_the_plain_reply_may_ask(files: Files, reply_ids: tuple[int, ...]) -> None:
    request = asks(8)
    run = run_of(asked(PLAIN, request), asked(DRAFT, request), replies={request.id: reply_ids})
    got = expected(files, run)
    (drafting,) = got.draftings
    assert (drafting.pack, drafting.ids, list(drafting.blocks)) == ("random", HELLO + reply_ids, list(range(5, 12)))
    assert (got.recipe, got.block_sizes, got.sayings) == ("tiny@test", {"random": 5}, ())
    assert all(len(block.drafts) == len(block.margins) == 4 for block in drafting.blocks.values())
    prediction = predict(DRAFT, request, run.recordings[0].answers[0], DECLARED, got)
    assert prediction is not None
    assert prediction.rounds
    assert prediction.unknown == ""
    journey = Journey(HELLO, said_by(request, run.recordings[0].answers[0], DRAFT), pack_rules(DRAFT, DECLARED, 5))  # type: ignore[arg-type]
    path = pack_path(journey, drafting.blocks)
    assert path is not None
    assert tuple(step.drafts for step in path.trace.rounds) == tuple(one.drafted_ids for one in prediction.rounds)


def test_requests_on_one_sequence_share_its_blocks_and_the_plain_reply_is_what_counts(
    files: Files, reply_ids: tuple[int, ...]
) -> None:
    short, long = asks(3), asks(8)
    plain, drafted = asked(PLAIN, short, long), asked(DRAFT, short, long)
    run = run_of(plain, drafted, replies={short.id: reply_ids[:3], long.id: reply_ids})
    strayed = run_of(drafted, replies={short.id: (1, 1, 1), long.id: (2,) * 8}).recordings
    run = msgspec.structs.replace(run, recordings=(run.recordings[0], *strayed))
    assert [one.ids for one in expected(files, run).draftings] == [HELLO + reply_ids]


def test_a_probe_under_a_name_of_its_own_is_walked_on_the_reply_to_the_same_question(
    files: Files, reply_ids: tuple[int, ...]
) -> None:
    request, probe = asks(3), asks(3, label="again")
    plain, drafted = asked(PLAIN, request), asked(DRAFT, probe)
    run = run_of(plain, drafted, replies={request.id: reply_ids[:3], probe.id: (9, 9, 9)})
    assert [one.ids for one in expected(files, run).draftings] == [HELLO + reply_ids[:3]]


def test_a_start_that_is_compared_with_none_is_walked_on_its_own_reply(files: Files, reply_ids: tuple[int, ...]) -> None:
    request = asks(3)
    run = run_of(msgspec.structs.replace(asked(DRAFT, request), reference=None), replies={request.id: reply_ids[:3]})
    assert [one.ids for one in expected(files, run).draftings] == [HELLO + reply_ids[:3]]


@pytest.mark.parametrize(
    ("arm", "fields"),
    [("draft", {"temperature": 0.8}), ("draft", {"logprobs": 1}), ("dump", {}), ("silent", {})],
    ids=["sampled", "logprobs", "dump-logits", "not-engaged"],
)
def test_nothing_is_drafted_for_what_must_be_decoded_plainly(
    files: Files, reply_ids: tuple[int, ...], arm: str, fields: dict[str, Any]
) -> None:
    request = asks(8, **fields)
    start = msgspec.structs.replace(asked(DRAFT, request), arm=arm)
    assert expected(files, run_of(asked(PLAIN, request), start, replies={request.id: reply_ids})).draftings == ()


def test_ids_that_no_table_holds_are_left_out(files: Files) -> None:
    request = asks(2)
    for ids in ((3, 256), (-1, 3)):
        run = run_of(asked(PLAIN, request), asked(DRAFT, request), replies={request.id: ids})
        got = expected(files, run)
        assert got.draftings == ()
        prediction = predict(DRAFT, request, run.recordings[0].answers[0], DECLARED, got)
        assert prediction is not None
        assert prediction.unknown == "what the pack drafts on this reply is not known"


def test_what_a_model_says_does_not_hang_on_the_replies(files: Files, reply_ids: tuple[int, ...]) -> None:
    request = asks(6, "oracle-reply")
    right = expected(files, run_of(asked(PLAIN, request), replies={request.id: reply_ids[:6]}))
    wrong = expected(files, run_of(asked(PLAIN, request), replies={request.id: (9, 9)}))
    for got in (right, wrong):
        saying = got.saying("tiny", HELLO)
        assert saying is not None
        assert tuple(choice.token for choice in saying.choices) == reply_ids[:6]
    assert right.models["tiny"].end_tokens == (185, 187)


def test_what_a_model_says_is_known_though_nobody_answered(files: Files, reply_ids: tuple[int, ...]) -> None:
    plan = run_of(asked(PLAIN, asks(3, "oracle-reply")), replies={asks(3).id: (1, 1, 1)}).plan
    (saying,) = Oracle(files).expectations(plan, (), DECLARED).sayings
    assert tuple(choice.token for choice in saying.choices) == reply_ids[:3]


def test_twins_of_the_same_weights_share_what_is_said_within_their_own_context(files: Files, reply_ids: tuple[int, ...]) -> None:
    request = asks(5, "oracle-reply")
    twin = Start("context/plain", "plain", "tiny+context=8", (request,))
    got = expected(files, run_of(asked(PLAIN, request), twin, replies={request.id: reply_ids[:3]}))
    assert len(got.sayings) == 1
    assert got.saying("tiny+context=8", HELLO) == got.saying("tiny", HELLO)
    assert (got.models["tiny"].context, got.models["tiny+context=8"].context) == (1024, 8)
    alone = expected(files, run_of(twin, replies={request.id: reply_ids[:3]}))
    (saying,) = alone.sayings
    assert len(saying.choices) == 3


def test_files_are_read_once_and_only_those_that_matter(files: Files, reply_ids: tuple[int, ...]) -> None:
    request, other = asks(3), asks(4)
    plain, drafted = asked(PLAIN, request), asked(DRAFT, request)
    unread = Start("broken", "plain", "tiny+truncated", (other,))
    run = run_of(plain, drafted, unread, replies={request.id: reply_ids[:3], other.id: reply_ids[:4]})
    oracle = Oracle(files)
    files.asked.clear()
    first = oracle.completed(run)
    assert oracle.completed(run) == first
    assert sorted(files.asked) == ["random", "tiny", "tiny", "tiny"]  # its facts, its rows, its weights


def test_a_plan_is_told_of_its_own_packs_alone_whoever_was_asked_before(files: Files, reply_ids: tuple[int, ...]) -> None:
    request, oracle = asks(3), Oracle(files)
    replies = {request.id: reply_ids[:3]}
    other = draft("other", "another")
    first = run_of(asked(PLAIN, request), asked(other, request), replies=replies)
    second = run_of(asked(PLAIN, request), asked(DRAFT, request), replies=replies)
    assert [oracle.completed(run).expectations.block_sizes for run in (first, second)] == [{"another": 5}, {"random": 5}]  # type: ignore[union-attr]


def test_expectations_survive_the_file_border(files: Files, reply_ids: tuple[int, ...]) -> None:
    request = asks(8, "oracle-reply")
    run = Oracle(files).completed(run_of(asked(PLAIN, request), asked(DRAFT, request), replies={request.id: reply_ids}))
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run


def test_a_run_without_expectations_tells_what_it_lacks(reply_ids: tuple[int, ...]) -> None:
    request = asks(8)
    prediction = predict(DRAFT, request, said(request, reply_ids), DECLARED)
    assert prediction is not None
    assert (prediction.path, prediction.counts, prediction.unknown) == ("spec", None, "no expectations came with the run")


def test_a_model_that_cannot_be_read_is_an_error(files: Files, tmp_path: Path, reply_ids: tuple[int, ...]) -> None:
    request = asks(3)
    (tmp_path / "tiny").mkdir()
    run = run_of(asked(PLAIN, request), asked(DRAFT, request), replies={request.id: reply_ids[:3]})
    with pytest.raises(FileFormatError, match=r"config\.json: cannot be read"):
        Oracle(Files(tmp_path, [])).completed(run)
