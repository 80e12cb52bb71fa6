"""The prefix cache on a base that keeps its stream for a KV cache."""

from __future__ import annotations

import numpy as np
import pytest

from forward_serve.serving.prefix import PrefixCache, num_common
from forward_serve.taps import TapSink
from tests.forward_serve.serving.toy import ToyBase


def cached(run: list[int], *, is_on: bool = True, held: int | None = None) -> tuple[PrefixCache, ToyBase]:
    """A cache after a request that ran `run`, of which the base holds the first `held`."""
    base = ToyBase()
    cache = PrefixCache(base, is_on=is_on)
    cache.resume(run)
    base.prefill(run)
    base.truncate(len(run) if held is None else held)
    cache.remember(run)
    return cache, base


@pytest.mark.parametrize(
    ("run", "prompt", "kept"),
    [
        ([1, 2, 3, 4], [1, 2, 9], 2),
        ([1, 2, 3, 4], [9, 2, 3], 0),
        ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6], 4),
        ([1, 2, 3, 4], [1, 2, 3, 4], 3),  # one token is run for its logits
        ([1, 2, 3, 4], [1, 2], 1),
        ([1, 2, 3, 4], [1], 0),
        ([1, 1, 1, 1], [1, 1, 1], 2),
    ],
)
def test_what_is_kept_is_the_common_prefix_but_the_prompts_last_token(run: list[int], prompt: list[int], kept: int) -> None:
    cache, base = cached(run)
    assert cache.resume(prompt) == kept
    assert base.stream == prompt[:kept]


def test_only_what_the_base_holds_can_be_resumed() -> None:
    cache, base = cached([1, 2, 3, 4, 5], held=3)
    assert cache.resume([1, 2, 3, 4, 5, 6]) == 3
    assert base.stream == [1, 2, 3]


def test_a_first_request_starts_at_0_whatever_a_warm_up_ran() -> None:
    base = ToyBase()
    base.prefill([1, 2, 3])
    assert PrefixCache(base, is_on=True).resume([1, 2, 3, 4]) == 0
    assert base.stream == []


def test_a_cache_that_is_off_starts_every_request_at_0() -> None:
    cache, base = cached([1, 2, 3], is_on=False)
    assert cache.resume([1, 2, 3, 4]) == 0
    assert base.stream == []


def test_a_request_that_never_says_what_it_ran_leaves_what_it_resumed() -> None:
    cache, base = cached([1, 2, 3, 4])
    cache.resume([1, 2, 9])
    base.prefill([9])
    assert cache.resume([1, 2, 3, 4, 5]) == 2


@pytest.mark.parametrize("prompt", [[1, 2, 9], [9]])
def test_no_taps_are_kept(prompt: list[int]) -> None:
    cache, base = cached([1, 2, 3])
    base.tap_sink = TapSink([0], 4, 8)
    base.tap_sink.append([np.zeros((3, 4), np.float32)])
    cache.resume(prompt)
    assert len(base.tap_sink) == 0


def test_streams_may_end_inside_each_other() -> None:
    assert [num_common([1, 2], [1, 2, 3]), num_common([1, 2, 3], [1, 2]), num_common([], [1]), num_common([1], [2])] == [
        2,
        2,
        0,
        0,
    ]
