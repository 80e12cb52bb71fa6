"""The choice of one token: what changes the row it is made from, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from forward_serve.serving.choice import Choice
from forward_serve.serving.dump import LogitDump
from forward_serve.serving.logprobs import Scorer
from forward_serve.serving.request import Grammar, GrammarKind, Penalties, SamplingParams
from tests.forward_serve.serving.toy import END, VOCAB, grammars, request

A, B, C = b"abc"


def row(**logits: float) -> np.ndarray:
    values = np.zeros(VOCAB + 3, np.float32)
    values[VOCAB:] = 9
    for name, logit in logits.items():
        values[ord(name)] = logit
    return values


ROW = row(a=3, b=2.5, c=2)


def choice(constraint_of: str = "", dump: LogitDump | None = None, **fields: Any) -> Choice:
    grammar = Grammar(GrammarKind.REGEX, constraint_of, "structured_outputs.regex") if constraint_of else None
    constraint = None if grammar is None else grammars().begin(grammar, False)
    return Choice(request("x", grammar=grammar, **fields), VOCAB, lambda token: bytes([token]), constraint, dump)


def test_a_greedy_choice_is_the_argmax_below_the_bound() -> None:
    assert choice()(ROW) == A
    assert choice(num_logprobs=0)(row(b=1, a=1)) == A


def test_a_presence_penalty_counts_what_was_chosen_before() -> None:
    chooser = choice(penalties=Penalties(presence=0.75))
    assert [chooser(ROW) for _ in range(4)] == [A, B, A, A]


def test_a_repetition_penalty_counts_the_prompt_too() -> None:
    assert choice(penalties=Penalties(repetition=2.0))(row(x=3, a=2)) == A


def test_a_bias_decides() -> None:
    assert choice(logit_bias=((C, 1.5),))(ROW) == C


def test_a_grammar_masks_whatever_a_bias_wants() -> None:
    assert choice("b|cc")(ROW) == B
    assert choice("b|cc", logit_bias=((A, 100.0), (C, 50.0)))(ROW) == C


def test_an_end_token_is_chosen_where_the_grammar_allows_it_alone() -> None:
    chooser = choice("a?")
    assert chooser(row(a=-1)) == END


def test_a_sampled_choice_is_drawn_from_what_penalties_and_grammar_leave() -> None:
    sampling = SamplingParams(seed=5)
    chooser = choice("(b|c)*d", sampling=sampling, logit_bias=((C, -100.0),), penalties=Penalties(presence=-1))
    assert {chooser(ROW) for _ in range(40)} == {B, ord("d")}
    tokens = [choice(sampling=SamplingParams(seed=6), logit_bias=((C, 4.0),)) for _ in range(2)]
    assert [tokens[0](ROW) for _ in range(9)] == [tokens[1](ROW) for _ in range(9)]


def test_the_row_stays_as_it_was() -> None:
    chooser = choice("b*c", penalties=Penalties(1, 1, 2), logit_bias=((A, 5.0),), num_logprobs=2)
    logits = ROW.copy()
    chooser(logits)
    assert logits.tolist() == ROW.tolist()


def test_logprobs_are_of_the_raw_row_whatever_changed_it_and_one_entry_a_choice() -> None:
    chooser = choice("b*c", num_logprobs=2, logit_bias=((C, 9.0),), sampling=SamplingParams(temperature=0.1, seed=1))
    tokens = [chooser(ROW), chooser(row(b=7))]
    scorer = Scorer(lambda token: bytes([token]), VOCAB, 2)
    assert tokens == [C, C]
    assert chooser.logprobs == [scorer(ROW, C), scorer(row(b=7), C)]
    assert [entry.token for entry in chooser.logprobs[0].best] == [A, B]


def test_a_request_that_asks_for_no_logprobs_has_none() -> None:
    chooser = choice(logit_bias=((A, 1.0),))
    chooser(ROW)
    assert chooser.logprobs is None


def test_a_dump_gets_the_raw_row(tmp_path: Path) -> None:
    with LogitDump(tmp_path, "id") as dump:
        choice("b*c", dump, logit_bias=((C, 9.0),))(ROW)
        dump.keep(1)
    assert np.load(tmp_path / "id.npy").tolist() == [ROW.tolist()]
