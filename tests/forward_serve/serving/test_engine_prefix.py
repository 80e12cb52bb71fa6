"""The engine with its prefix cache: what is resumed, what a broken request leaves, and drafters on a resumed prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import RequestError
from forward_serve.serving.engine import Engine, Outcome
from forward_serve.serving.fault import PassFault
from forward_serve.serving.flags import parse_flags
from forward_serve.serving.outlet import ClientLeftError
from forward_serve.serving.request import Endpoint, Grammar, GrammarKind, Request, SamplingParams
from forward_serve.serving.speclog import SpecRecord
from forward_serve.serving.startup import load
from tests.forward_serve.serving.golden import unpack_container, write_pack
from tests.forward_serve.serving.test_engine import line
from tests.forward_serve.serving.toy import GREEDY, Listener, Log, ToyBase, engine, lookup, no_hook, request, served


class RememberingBase(ToyBase):
    """Its next token depends on every token of its stream: a stale, missing or moved one changes the reply."""

    def __init__(self, before_pass: Callable[[int], None] = no_hook) -> None:
        super().__init__(before_pass=before_pass)

    def _next(self, stream: Sequence[int]) -> int:
        mixed = 7
        for token in stream:
            mixed = (mixed * 31 + token) % 10_007
        return b"abc"[mixed % 3]


def cached(base: RememberingBase, *, drafts: bool = False, log: Log | None = None) -> Engine:
    return engine(served(base, head=lookup() if drafts else None, caches_prefixes=True), log)


def ask(serving: Engine, prompt: str, max_tokens: int = 6, **more: Any) -> Outcome:
    return serving.answer(request(prompt, max_tokens, **more), "cmpl-1", Listener())


def alone(prompt: str, max_tokens: int = 6, *, drafts: bool = False, **more: Any) -> Outcome:
    """The reply of a fresh server without a cache."""
    serving = engine(served(RememberingBase(), head=lookup() if drafts else None))
    return serving.answer(request(prompt, max_tokens, **more), "cmpl-1", Listener())


def counts(record: SpecRecord) -> tuple[Any, ...]:
    return record.path, record.rounds, record.drafted, record.accepted, record.plain, record.tokens, record.per_round


def test_the_next_turn_of_a_chat_resumes_behind_the_last_reply_but_its_last_token() -> None:
    serving = cached(RememberingBase())
    first = ask(serving, "xyz")
    turn = "xyz" + first.deliver.text
    assert line(ask(serving, turn + "more"))["cached"] == str(len(turn) - 1)  # the reply's last token was never run
    assert ask(serving, turn + "more").deliver.ids == alone(turn + "more").deliver.ids


def test_the_same_prompt_again_runs_its_last_token_alone() -> None:
    base = RememberingBase()
    serving = cached(base)
    ask(serving, "x" * 40)
    base.pass_sizes.clear()
    outcome = ask(serving, "x" * 40, 3)
    assert (line(outcome)["cached"], base.pass_sizes) == ("39", [1, 1, 1])
    assert outcome.deliver.ids == alone("x" * 40, 3).deliver.ids


def test_without_the_flag_nothing_is_resumed() -> None:
    serving = engine(served(RememberingBase()))
    assert [line(ask(serving, "xyz"))["cached"] for _ in range(2)] == ["0", "0"]


@pytest.mark.parametrize("drafts", [False, True])
def test_rows_behind_a_stop_never_stay(drafts: bool) -> None:
    base = RememberingBase()
    serving = cached(base, drafts=drafts)
    ids = alone("abcabc", 12).deliver.ids
    stop = bytes(ids[3:6]).decode()
    outcome = ask(serving, "abcabc", 12, stops=(stop,))
    run = [*b"abcabc", *outcome.deliver.ids]
    assert base.stream == run[: len(base.stream)]
    assert len(base.stream) - 6 in {len(outcome.deliver.ids) - 1, len(outcome.deliver.ids)}


def test_a_failed_request_leaves_what_it_committed() -> None:
    fault = PassFault(5)
    serving = cached(RememberingBase(before_pass=lambda _: fault()))
    failed = ask(serving, "x" * 40)  # three passes for the prompt, one for the first token, and that of the second fails
    assert (line(failed)["reason"], failed.deliver.num_tokens) == ("failed", 2)
    turn = "x" * 40 + failed.deliver.text + "q"
    resumed = ask(serving, turn)
    assert line(resumed)["cached"] == "41"
    assert resumed.deliver.ids == alone(turn).deliver.ids


def test_a_prefill_that_fails_leaves_the_passes_that_came() -> None:
    fault = PassFault(3)
    log = Log()
    serving = cached(RememberingBase(before_pass=lambda _: fault()), log=log)
    ask(serving, "x" * 40)
    assert log.lines[-1].endswith(" plain=0 tokens=0 cached=0 fallback=- reason=failed")
    resumed = ask(serving, "x" * 40)
    assert line(resumed)["cached"] == "32"
    assert resumed.deliver.ids == alone("x" * 40).deliver.ids


def test_a_cancelled_request_leaves_what_it_committed() -> None:
    class Leaving(Listener):
        def hear(self, part: Any) -> None:
            super().hear(part)
            self.is_gone = len(self.ids) == 3

    base = RememberingBase()
    serving = cached(base)
    listener = Leaving()
    serving.answer(request("xyz", 20), "cmpl-1", listener)
    assert base.stream == [*b"xyz", *listener.ids]
    resumed = ask(serving, "xyz" + listener.text + "q")
    assert line(resumed)["cached"] == "6"
    assert resumed.deliver.ids == alone("xyz" + listener.text + "q").deliver.ids


def test_a_refused_request_touches_nothing() -> None:
    base = RememberingBase()
    serving = cached(base)
    ask(serving, "xyz", 4)
    left = list(base.stream)
    with pytest.raises(RequestError):
        ask(serving, "q", grammar=Grammar(GrammarKind.REGEX, "(", "structured_outputs.regex"))
    gone = Listener()
    gone.is_gone = True
    with pytest.raises(ClientLeftError):
        serving.answer(request("q"), "cmpl-1", gone)
    assert base.stream == left
    assert line(ask(serving, "xyz"))["cached"] == "2"


@pytest.mark.parametrize("drafts", [False, True])
def test_a_sampled_request_leaves_its_own_tokens_and_resumes_as_any(drafts: bool) -> None:
    serving = cached(RememberingBase(), drafts=drafts)
    first = ask(serving, "xyz", 9, sampling=SamplingParams(seed=3))
    turn = "xyz" + first.deliver.text
    assert first.deliver.ids == alone("xyz", 9, sampling=SamplingParams(seed=3)).deliver.ids
    assert line(ask(serving, turn + "q", 9))["cached"] == str(len(turn) - 1)


PROMPTS = st.text("ab", min_size=1, max_size=9)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(PROMPTS, st.integers(1, 8), st.sampled_from(["", "a", "ab", "cc"]), st.booleans()), max_size=6),
    st.booleans(),
)
def test_any_sequence_of_requests_equals_the_same_requests_alone_and_cached_is_its_rule(
    asked: list[tuple[str, int, str, bool]], drafts: bool
) -> None:
    base = RememberingBase()
    serving = cached(base, drafts=drafts)
    left: list[int] = []
    for prompt, max_tokens, stop, is_sampled in asked:
        more = {"stops": (stop,) if stop else (), "sampling": SamplingParams(seed=1) if is_sampled else GREEDY}
        got, want = ask(serving, prompt, max_tokens, **more), alone(prompt, max_tokens, drafts=drafts, **more)
        assert (got.deliver.whole(), got.deliver.stop_reason) == (want.deliver.whole(), want.deliver.stop_reason)
        assert counts(got.record) == counts(want.record)
        common = next(
            (i for i, (a, b) in enumerate(zip(left, prompt.encode(), strict=False)) if a != b), min(len(left), len(prompt))
        )
        assert got.record.cached == min(common, len(prompt) - 1)
        left = list(base.stream)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden container `tiny` and a pack `pack` that lands some drafts."""
    directory = tmp_path_factory.mktemp("cached")
    unpack_container(directory / "tiny")
    write_pack(directory / "pack", seed=10)
    return directory


def started(files: Path, *flags: str) -> Engine:
    return engine(load(parse_flags(["-m", str(files / "tiny"), *flags])).served)


def run_ids(serving: Engine, prompt_ids: Sequence[int], max_tokens: int = 12, **more: Any) -> Outcome:
    fields: dict[str, Any] = {"sampling": GREEDY, **more}
    return serving.answer(Request(Endpoint.COMPLETION, tuple(prompt_ids), max_tokens, **fields), "cmpl-1", Listener())


HELLO = (39, 68, 75, 75, 78, 220, 39, 68, 75, 75, 78)
OTHER = (5, 6, 7, 8)


def test_a_resumed_request_of_a_draft_server_decodes_plainly_for_want_of_taps(files: Path) -> None:
    plain = started(files)
    serving = started(files, "--prefix-cache", "--spec-draft", str(files / "pack"))
    first = run_ids(serving, HELLO)
    assert (line(first)["cached"], line(first)["reason"], first.record.drafted > 0) == ("0", "-", True)
    for prompt, kept in (((*HELLO, 9), 11), ((39, 70, 71), 1), ((39, 70), 1)):
        got, want = run_ids(serving, prompt), run_ids(plain, prompt)
        assert got.deliver.whole() == want.deliver.whole()
        assert (line(got)["path"], line(got)["reason"], line(got)["cached"]) == ("spec", "no-taps", str(kept))
        assert (got.record.rounds, got.record.drafted, got.record.plain) == (0, 0, want.record.plain)


def test_a_draft_server_drafts_again_where_nothing_is_resumed(files: Path) -> None:
    uncached = started(files, "--spec-draft", str(files / "pack"))
    serving = started(files, "--prefix-cache", "--spec-draft", str(files / "pack"))
    sampled = SamplingParams(seed=1)
    for prompt, sampling in ((HELLO, GREEDY), ((*HELLO, 1), GREEDY), (OTHER, GREEDY), ((9, 9), sampled), (HELLO, GREEDY)):
        got, want = run_ids(serving, prompt, sampling=sampling), run_ids(uncached, prompt, sampling=sampling)
        assert got.deliver.whole() == want.deliver.whole()
        if got.record.cached == 0:
            assert counts(got.record) == counts(want.record)
    assert line(run_ids(serving, OTHER))["reason"] == "-"


def test_a_resumed_request_with_a_budget_of_one_was_never_asked(files: Path) -> None:
    serving = started(files, "--prefix-cache", "--spec-draft", str(files / "pack"))
    run_ids(serving, HELLO)
    assert line(run_ids(serving, HELLO, 1))["reason"] == "budget"


@pytest.mark.parametrize("split", [1, 3, 15, 16, 17, 40])
def test_a_resumed_prompt_gives_the_bits_of_a_whole_one(files: Path, split: int) -> None:
    prompt = [(7 * i + i * i) % 185 for i in range(50)]
    serving, fresh = started(files, "--prefix-cache"), started(files)
    run_ids(serving, [*prompt[:split], 200], 1)
    got, want = run_ids(serving, prompt, 6, num_logprobs=20), run_ids(fresh, prompt, 6, num_logprobs=20)
    assert line(got)["cached"] == str(split)
    assert got.deliver.whole() == want.deliver.whole()
