"""What one lookup costs for streams of 1,000 to 1,000,000 tokens: it must not grow with the stream.

Usage: python -m benchmarks.lookup [--seed N]. Each figure is the median of its repeats, in microseconds, one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from forward_serve.decoding.lookup import PromptLookupHead

STREAM_LENGTHS = (1_000, 10_000, 100_000, 1_000_000)  # tokens
NUM_TOKENS = 50_000  # of the vocabulary that the stream uses; the ids above never occur
NUM_REPEATS = 2_000
NUM_DRAFTS = 7


def timed_us(action: Callable[[int], object], arguments: list[int]) -> float:
    """Return the median time of `action` over `arguments`, in microseconds."""
    times = []
    for argument in arguments:
        start = time.perf_counter_ns()
        action(argument)
        times.append(time.perf_counter_ns() - start)
    return median(times) / 1e3


def measure(num_tokens: int, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return what one stream costs: indexing a token of the prompt, a hit, a miss, and committing a token."""
    stream = rng.integers(NUM_TOKENS, size=num_tokens).tolist()
    head = PromptLookupHead()
    start = time.perf_counter_ns()
    head.begin(stream)
    begin_us = (time.perf_counter_ns() - start) / 1e3 / num_tokens
    known = rng.choice(stream, NUM_REPEATS).tolist()
    hit_us = timed_us(lambda t1: head.propose(t1, num_tokens, NUM_DRAFTS, None), known)
    miss_us = timed_us(lambda t1: head.propose(t1, num_tokens, NUM_DRAFTS, None), [NUM_TOKENS] * NUM_REPEATS)
    assert head.last_word == "no-match"
    commit_us = timed_us(lambda token: head.commit_rows([token]), known)
    return begin_us, hit_us, miss_us, commit_us


def main() -> None:
    """Print one row for each stream length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    rng = np.random.default_rng(parser.parse_args().seed)
    print(f"{'stream':>10} {'prompt/token':>13} {'proposal':>9} {'no match':>9} {'commit':>9}   (us)")
    for num_tokens in STREAM_LENGTHS:
        begin_us, hit_us, miss_us, commit_us = measure(num_tokens, rng)
        print(f"{num_tokens:>10,} {begin_us:>13.2f} {hit_us:>9.2f} {miss_us:>9.2f} {commit_us:>9.2f}")


if __name__ == "__main__":
    main()
