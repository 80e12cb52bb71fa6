"""The engine on requests that need more than an argmax: each takes the plain loop, with its reason, as on a plain server."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forward_serve.decoding.interfaces import Head
from forward_serve.serving.deliver import FinishReason
from forward_serve.serving.engine import Outcome
from forward_serve.serving.fault import PassFault
from forward_serve.serving.outlet import ClientLeftError
from forward_serve.serving.request import Grammar, GrammarKind, Penalties, Request, SamplingParams
from forward_serve.serving.speclog import Ending
from tests.forward_serve.serving.test_engine import line
from tests.forward_serve.serving.toy import END, VOCAB, Listener, Log, ToyBase, engine, lookup, request, served


def regex(source: str) -> Grammar:
    return Grammar(GrammarKind.REGEX, source, "structured_outputs.regex")


ASKED: dict[str, dict[str, Any]] = {
    "grammar": {"grammar": regex("([ab]c){12}")},
    "logprobs": {"num_logprobs": 3},
    "penalties": {"penalties": Penalties(presence=0.5, frequency=0.25, repetition=1.5)},
    "logit-bias": {"logit_bias": ((99, -0.5),)},
}
ENDINGS: dict[str, dict[str, Any]] = {
    "budget": {},
    "stop": {"stops": ("ca",)},
    "ignore_eos": {"ignore_eos": True},
    "sampled": {"sampling": SamplingParams(seed=4)},
}


def reply(head: Head | None, asked: Request, base: Callable[[], ToyBase] = ToyBase, **more: Any) -> Outcome:
    return engine(served(base(), head=head, **more)).answer(asked, "cmpl-1", Listener())


def essence(outcome: Outcome) -> tuple[Any, ...]:
    deliver = outcome.deliver
    return deliver.whole(), deliver.finish_reason, deliver.stop_reason, outcome.record.tokens, outcome.record.plain


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("reason", ASKED)
def test_a_lookup_server_gives_the_plain_servers_reply_on_the_plain_path_and_says_why(reason: str, ending: str) -> None:
    asked = request("abcab", 20, **ASKED[reason], **ENDINGS[ending])
    plain, got = reply(None, asked), reply(lookup(), asked)
    assert essence(got) == essence(plain)
    assert (line(got)["path"], line(got)["drafted"]) == ("plain", "0")
    assert line(got)["reason"] == ("sampled" if ending == "sampled" else reason)
    assert (line(plain)["path"], line(plain)["reason"]) == ("plain", "-")


@pytest.mark.parametrize("reason", ASKED)
def test_the_field_is_not_ignored(reason: str) -> None:
    asked, bare = request("abcab", 20, **ASKED[reason]), request("abcab", 20)
    differs = reply(None, asked).deliver.ids != reply(None, bare).deliver.ids
    assert differs == (reason != "logprobs")


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 30])
def test_a_grammar_gives_a_match_or_a_beginning_of_one(budget: int) -> None:
    outcome = reply(None, request("x", budget, grammar=regex("(c(a|bb)){3}")), lambda: ToyBase("ab"))
    assert outcome.deliver.text == "cbbcaca"[:budget]
    finish = (FinishReason.LENGTH, None) if budget <= 7 else (FinishReason.STOP, END)
    assert (outcome.deliver.finish_reason, outcome.deliver.stop_reason) == finish


def test_a_grammar_that_may_end_ends_where_the_model_wants_to() -> None:
    outcome = reply(None, request("x", 30, grammar=regex("(ab)*")), lambda: ToyBase("abab\x04"))
    assert (outcome.deliver.text, outcome.deliver.stop_reason, outcome.record.tokens) == ("abab", END, 4)


def test_a_grammar_that_may_not_end_keeps_the_model_from_ending() -> None:
    outcome = reply(None, request("x", 5, grammar=regex("a{9}")), lambda: ToyBase("a\x04"))
    assert (outcome.deliver.text, outcome.deliver.finish_reason) == ("aaaaa", FinishReason.LENGTH)


def test_a_grammar_at_its_end_ends_the_reply_where_end_tokens_are_ignored() -> None:
    outcome = reply(None, request("x", 30, grammar=regex("ab"), ignore_eos=True))
    assert (outcome.deliver.text, outcome.deliver.finish_reason, outcome.deliver.stop_reason) == ("ab", FinishReason.STOP, None)
    assert line(outcome)["tokens"] == "2"
    assert line(outcome)["plain"] == "1"


def test_an_empty_match_is_an_empty_reply() -> None:
    outcome = reply(None, request("x", 30, grammar=regex("")))
    assert (outcome.deliver.text, outcome.deliver.ids, outcome.deliver.stop_reason) == ("", [], END)


def test_a_stop_inside_a_match_cuts_it() -> None:
    outcome = reply(None, request("x", 30, grammar=regex("abcab"), stops=("bc",)))
    assert (outcome.deliver.text, outcome.deliver.ids, outcome.deliver.stop_reason) == ("a", list(b"abc"), "bc")


def test_a_json_schema_gives_json() -> None:
    grammar = Grammar(GrammarKind.JSON_SCHEMA, '{"enum": [{"a": [1, true]}]}', "structured_outputs.json")
    no_space = tuple((ord(space), -100.0) for space in "\t\n\r ")
    assert reply(None, request("x", 60, grammar=grammar, logit_bias=no_space)).deliver.text == '{"a":[1,true]}'


def test_a_grammar_that_leads_nowhere_fails_its_request_and_the_next_one_is_served() -> None:
    log = Log()
    serving = engine(served(), log)
    outcome = serving.answer(request(grammar=regex("aé")), "cmpl-1", Listener())
    assert (outcome.ending, "no token of this model goes on" in outcome.failure) == (Ending.FAILED, True)
    assert log.lines[-1].endswith("reason=failed")
    assert serving.answer(request(), "cmpl-2", Listener()).deliver.text == "abcababc"


@pytest.mark.parametrize("stops", [(), ("bca",)])
def test_logprobs_and_offsets_have_the_ids_length_and_no_end_token(stops: tuple[str, ...]) -> None:
    outcome = reply(None, request("x", 30, num_logprobs=2, stops=stops), lambda: ToyBase("abcab\x04"))
    part = outcome.deliver.whole()
    assert part.logprobs is not None
    assert [entry.chosen.token for entry in part.logprobs] == list(part.ids)
    assert list(part.offsets) == list(range(len(part.ids))) == ([0, 1, 2, 3] if stops else [0, 1, 2, 3, 4])
    assert all(entry.best[0] == entry.chosen for entry in part.logprobs)


def test_the_toys_logprobs_are_those_of_its_rows() -> None:
    part = reply(None, request("x", 1, num_logprobs=3)).deliver.whole()
    assert part.logprobs is not None
    total = 2 * math.e + (VOCAB - 2)  # the winner ties with the highest id
    want = [1 - math.log(total), 1 - math.log(total), -math.log(total)]
    assert [entry.logprob for entry in part.logprobs[0].best] == pytest.approx(want)
    assert [entry.token for entry in part.logprobs[0].best] == [ord("a"), VOCAB - 1, 0]


def test_a_stream_gets_the_logprobs_of_its_ids_and_no_others() -> None:
    parts = []

    class Ear(Listener):
        def hear(self, part: Any) -> None:
            parts.append(part)

    outcome = engine(served()).answer(request("x", 6, num_logprobs=1, stops=("cab",)), "cmpl-1", Ear())
    parts.append(outcome.deliver.take())
    assert [[entry.chosen.token for entry in part.logprobs] for part in parts] == [list(part.ids) for part in parts]
    assert [offset for part in parts for offset in part.offsets] == list(range(5))
    assert "".join(part.text for part in parts) == outcome.deliver.text == "ab"


@pytest.mark.parametrize("head", [None, "lookup"])
def test_a_dump_holds_the_row_of_each_counted_token(tmp_path: Path, head: str | None) -> None:
    serving = engine(served(ToyBase("ab\x04"), head=lookup() if head else None, dump_directory=tmp_path))
    outcome = serving.answer(request("x", 9), "cmpl-1", Listener())
    rows = np.load(tmp_path / "cmpl-1.npy")
    assert (rows.shape, rows.dtype) == ((2, VOCAB + 3), np.float32)
    assert rows[:, :VOCAB].argmax(axis=1).tolist() == outcome.deliver.ids == [*b"ab"]
    assert (rows[:, VOCAB:] == 2).all()
    assert line(outcome)["reason"] == ("dump-logits" if head else "-")


def test_a_reply_without_tokens_has_a_dump_without_rows(tmp_path: Path) -> None:
    engine(served(ToyBase("\x04"), dump_directory=tmp_path)).answer(request("x", 9), "cmpl-1", Listener())
    assert np.load(tmp_path / "cmpl-1.npy").shape == (0, VOCAB + 3)


def test_a_failed_reply_has_no_dump(tmp_path: Path) -> None:
    fault = PassFault(4)
    serving = engine(served(ToyBase(before_pass=lambda _: fault()), dump_directory=tmp_path))
    assert serving.answer(request(), "cmpl-1", Listener()).ending is Ending.FAILED
    assert list(tmp_path.iterdir()) == []
    serving.answer(request(), "cmpl-2", Listener())
    assert [path.name for path in tmp_path.iterdir()] == ["cmpl-2.npy"]


@pytest.mark.parametrize("error", [ClientLeftError("left"), OSError("left")])
def test_a_cancelled_reply_has_no_dump(tmp_path: Path, error: Exception) -> None:
    class Gone(Listener):
        def hear(self, part: Any) -> None:
            super().hear(part)
            raise error

    outcome = engine(served(dump_directory=tmp_path)).answer(request(), "cmpl-1", Gone())
    assert outcome.ending is Ending.CANCELLED
    assert list(tmp_path.iterdir()) == []


def test_a_dump_that_cannot_be_written_fails_its_request(tmp_path: Path) -> None:
    serving = engine(served(dump_directory=tmp_path / "gone"))
    outcome = serving.answer(request(), "cmpl-1", Listener())
    assert (outcome.ending, outcome.failure.split(":")[1]) == (Ending.FAILED, " FileNotFoundError")
    (tmp_path / "gone").mkdir()
    assert serving.answer(request(), "cmpl-2", Listener()).ending is Ending.REPLY


def test_of_several_reasons_the_first_in_order_is_said(tmp_path: Path) -> None:
    everything: dict[str, Any] = {**ASKED["grammar"], **ASKED["logprobs"], **ASKED["penalties"], **ASKED["logit-bias"]}
    said = []
    for sampling in (SamplingParams(seed=1), SamplingParams(temperature=0)):
        outcome = reply(lookup(), request("x", 4, sampling=sampling, **everything), dump_directory=tmp_path)
        said.append(line(outcome)["reason"])
    outcome = reply(lookup(), request("x", 4, **ASKED["penalties"]), dump_directory=tmp_path)
    assert [*said, line(outcome)["reason"]] == ["sampled", "grammar", "dump-logits"]
