"""Tap rows: written on every pass, cut with the cache, side by side in order; a sink that accounts for each row."""

from __future__ import annotations

import numpy as np
import pytest

from forward_serve.container import Container
from forward_serve.errors import EngineError
from forward_serve.taps import TapSink
from tests.forward_serve.models import new_base, one_by_one, sink_of, some_ids


def test_tap_rows_stand_side_by_side_in_the_order_of_the_list(grouped: Container) -> None:
    ids = some_ids(grouped, 20)
    base, single = new_base(grouped, [2, 0, 2]), new_base(grouped, [0, 1, 2])
    base.prefill(ids)
    single.prefill(ids)
    taps = sink_of(single).rows(0, 20)
    np.testing.assert_array_equal(sink_of(base).rows(0, 20), np.concatenate([taps[:, 512:], taps[:, :256], taps[:, 512:]], 1))


def test_tap_rows_are_written_on_every_pass_and_cut_with_the_cache(grouped: Container) -> None:
    ids, other_ids = some_ids(grouped, 40), some_ids(grouped, 9, seed=3)
    want = new_base(grouped, [0, 2])
    one_by_one(want, ids)
    base = new_base(grouped, [0, 2])
    base.prefill(ids[:20])
    base.forward(ids[20:21])
    base.forward([*ids[21:25], *other_ids])
    base.truncate(25)
    base.forward(ids[25:])
    assert len(sink_of(base)) == 40
    assert sink_of(base).rows(0, 40).tobytes() == sink_of(want).rows(0, 40).tobytes()
    assert sink_of(base).rows(7, 9).shape == (2, 512)


def test_taps_cleared_at_a_resumed_position_lose_only_the_cut_rows(grouped: Container) -> None:
    base = new_base(grouped, [1])
    base.prefill(some_ids(grouped, 30))
    base.truncate(20)
    sink_of(base).clear()
    base.forward([1, 2, 3, 4])
    base.truncate(22)
    assert (base.num_positions, len(sink_of(base))) == (22, 2)
    base.truncate(10)
    assert (base.num_positions, len(sink_of(base))) == (10, 0)


def test_tap_rows_handed_out_do_not_change_with_the_sink(grouped: Container) -> None:
    base = new_base(grouped, [1])
    base.prefill([1, 2, 3])
    got = sink_of(base).rows(1, 3)
    want = got.copy()
    base.truncate(1)
    base.forward([9, 10])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (2, 1), (-1, 2)])
def test_tap_rows_outside_the_sink_are_an_error(start: int, stop: int) -> None:
    sink = TapSink([0], 2, 8)
    sink.append([np.ones((3, 2), np.float32)])
    with pytest.raises(EngineError, match="the sink holds 3"):
        sink.rows(start, stop)


def test_a_sink_refuses_too_many_rows_cuts_that_are_none_and_layers_that_are_none() -> None:
    sink = TapSink([0], 2, 3)
    with pytest.raises(EngineError, match="the sink holds 3"):
        sink.append([np.ones((4, 2), np.float32)])
    with pytest.raises(EngineError, match="it holds 0"):
        sink.truncate(1)
    assert len(sink) == 0
    for layer_ids in ([], [-1]):
        with pytest.raises(EngineError, match="tap layers"):
            TapSink(layer_ids, 2, 3)


def test_a_tap_layer_that_the_model_lacks_is_an_error(grouped: Container) -> None:
    with pytest.raises(EngineError, match="tap layer 3: the model has layers 0 to 2"):
        new_base(grouped, [0, 3])
