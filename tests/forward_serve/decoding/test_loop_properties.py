"""Whatever a head proposes and however a reply ends: the tokens are plain's, the counts add up, the rows are the tokens'."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.decoding.loop import Options, Stats, run
from forward_serve.decoding.scripted import ScriptedBase, ScriptedHead, saying

BOUND = 7
ELSEWHERE = 6


@dataclass(frozen=True)
class Case:
    """One reply and everything that may bend its way."""

    prompt: list[int]
    reply: list[int]
    k: int
    width: int
    max_tokens: int
    end_token: int | None
    stop_at: int | None  # deliveries
    consume_last: bool
    below: float
    window: int
    two_pass: bool
    pays: bool
    seed: int

    def want(self) -> list[int]:
        """What is delivered, without a loop: the reply up to its budget, stop or end token."""
        tokens = self.reply[: self.max_tokens]
        ends = [index for index, token in enumerate(tokens) if token == self.end_token or index + 1 == self.stop_at]
        return tokens[: ends[0] + 1] if ends else tokens

    def head(self) -> ScriptedHead:
        """A drafter that is right with a probability of its own at each slot, and often proposes less than it may."""
        rng = np.random.default_rng(self.seed)
        skill = rng.random()
        said = [*self.prompt, *self.reply, *[ELSEWHERE] * 16]

        def drafts(index: int, most: int) -> list[int]:
            right = said[index + 1 : index + 1 + int(rng.integers(0, most + 1))]
            return [token if rng.random() < skill else int(rng.integers(BOUND)) for token in right]

        return ScriptedHead(drafts, self.two_pass, self.pays)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tokens = st.integers(0, 5)
    reply = draw(st.lists(tokens, min_size=1, max_size=24))
    return Case(
        prompt=draw(st.lists(tokens, min_size=1, max_size=4)),
        reply=reply,
        k=draw(st.integers(0, 9)),
        width=draw(st.integers(1, 9)),
        max_tokens=draw(st.integers(1, len(reply))),
        end_token=draw(st.none() | tokens),
        stop_at=draw(st.none() | st.integers(1, len(reply))),
        consume_last=draw(st.booleans()),
        below=draw(st.sampled_from([0.0, 1.5, 2.0, 4.0])),
        window=draw(st.integers(1, 4)),
        two_pass=draw(st.booleans()),
        pays=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )


def decode(case: Case, head: ScriptedHead | None) -> tuple[list[int], Stats, ScriptedBase]:
    base = ScriptedBase(saying(case.prompt, case.reply, ELSEWHERE), BOUND, case.width, keep_hidden=True)
    tokens: list[int] = []

    def deliver(token: int) -> bool:
        tokens.append(token)
        return token != case.end_token and len(tokens) != case.stop_at

    options = Options(
        k=case.k,
        max_tokens=case.max_tokens,
        fallback_below=case.below,
        fallback_window=case.window,
        consume_last=case.consume_last,
        deliver=deliver,
        end_tokens=frozenset() if case.end_token is None else frozenset({case.end_token}),
    )
    return tokens, run(base, head, case.prompt, options), base


@settings(deadline=None, max_examples=400)
@given(case=cases())
def test_any_drafter_gives_the_tokens_of_plain_and_counts_that_add_up(case: Case) -> None:
    head = case.head()
    tokens, stats, base = decode(case, head)
    plain_tokens, plain, _ = decode(case, None)
    assert tokens == plain_tokens == case.want()
    assert (stats.tokens, stats.ended) == (plain.tokens, plain.ended)

    counted = tokens[:-1] if tokens[-1] == case.end_token else tokens
    assert stats.tokens == len(counted)
    assert stats.last in (0, 1)  # by its definition: tokens = rounds + plain + accepted + last
    assert base.stream == head.committed == [*case.prompt, *counted[: len(counted) - stats.last]]

    assert stats.rounds == len(stats.per_round)
    assert stats.drafted == sum(len(drafts) for drafts, _ in stats.per_round)
    assert stats.accepted == sum(accepted for _, accepted in stats.per_round)
    assert stats.passes == stats.plain_steps + stats.rounds * (2 if case.two_pass else 1)
    assert stats.passes == len(base.pass_sizes) - len(case.prompt)


@settings(deadline=None, max_examples=200)
@given(case=cases())
def test_a_plain_reply_leaves_its_last_counted_token_unrun_unless_the_budget_ended_it_and_it_is_consumed(
    case: Case,
) -> None:
    tokens, stats, _ = decode(case, None)
    assert stats.last == int(tokens[-1] != case.end_token and (stats.ended or not case.consume_last))


@settings(deadline=None, max_examples=200)
@given(case=cases())
def test_a_consumed_reply_that_its_budget_ended_is_run_to_its_last_token(case: Case) -> None:
    tokens, stats, base = decode(case, case.head())
    if not stats.ended and case.consume_last:
        assert base.stream == [*case.prompt, *tokens]


@settings(deadline=None, max_examples=100)
@given(case=cases())
def test_the_same_drafts_in_one_pass_or_two_give_the_same_tokens_counts_and_position(case: Case) -> None:
    results = []
    for two_pass in (False, True):
        tokens, stats, base = decode(case, replace(case, two_pass=two_pass).head())
        results.append((tokens, stats.per_round, stats.plain_steps, stats.fell_back_at, base.stream))
    assert results[0] == results[1]
