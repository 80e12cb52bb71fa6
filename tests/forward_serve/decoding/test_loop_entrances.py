"""What the loop's entrances take that is just enough, and that seconds are added up."""

from __future__ import annotations

from collections.abc import Callable

from forward_serve.decoding.loop import Options, Stats, prefill, run, run_from
from forward_serve.decoding.scripted import ScriptedBase, saying

BOUND = 100
PROMPT = [90, 91, 92]
REPLY = [10, 11, 12, 13]


def base_saying_the_reply() -> ScriptedBase:
    return ScriptedBase(saying(PROMPT, REPLY, BOUND - 1), BOUND)


def into(tokens: list[int]) -> Callable[[int], bool]:
    """A deliver that keeps what it is given."""

    def deliver(token: int) -> bool:
        tokens.append(token)
        return True

    return deliver


def test_run_from_takes_logits_that_reach_exactly_to_the_vocabulary_bound() -> None:
    base, tokens = base_saying_the_reply(), list[int]()
    logits = prefill(base, PROMPT)[:BOUND]
    run_from(base, None, 3, logits, Options(k=0, max_tokens=1, deliver=into(tokens)))
    assert tokens == REPLY[:1]


def test_a_vocabulary_of_one_token_is_one() -> None:
    base, tokens = ScriptedBase(saying([0], [0, 0], 0), vocab_bound=1), list[int]()
    run(base, None, [0], Options(k=0, max_tokens=2, deliver=into(tokens)))
    assert tokens == [0, 0]


def test_seconds_are_added_to_what_the_counts_hold_already() -> None:
    stats = Stats(prefill_seconds=10.0, decode_seconds=20.0)
    ticks = iter([0.0, 1.0, 5.0, 7.0])
    run(base_saying_the_reply(), None, PROMPT, Options(k=0, max_tokens=1), stats, clock=lambda: next(ticks))
    assert (stats.prefill_seconds, stats.decode_seconds) == (11.0, 22.0)
