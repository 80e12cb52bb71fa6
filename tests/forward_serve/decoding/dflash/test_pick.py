"""From hidden rows to drafts: the bound, the ties, the candidates and the selector's walk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.decoding.dflash import open_pack
from forward_serve.decoding.dflash.pick import ArgmaxPick, SelectorPick, pick_of
from forward_serve.decoding.dflash.selector import CandidateSelector, best_ids
from forward_serve.decoding.interfaces import Rows
from tests.forward_serve.decoding.dflash.conftest import SECOND


def source_of(bound: int) -> Any:
    """A target whose head returns the rows themselves."""
    return SimpleNamespace(vocab_bound=bound, head=lambda hidden: hidden)


def rows_of(*rows: list[float]) -> Rows:
    return np.array(rows, np.float32)


def selector_of(edges: Rows, gate: Rows, top_k: int) -> CandidateSelector:
    """A selector of rank V whose edge from a to b is gate-weighted `edges[a, b]`."""
    return CandidateSelector(predecessors=edges, successors=np.eye(len(edges), dtype=np.float32), gate=gate, top_k=top_k)


def pick_with(selector: CandidateSelector, bound: int, multiplier: float = 1.0, cap: float | None = None) -> SelectorPick:
    config: Any = SimpleNamespace(output_multiplier=multiplier, final_logit_softcapping=cap)
    return SelectorPick(source_of(bound), selector, config)


def test_argmax_takes_the_lowest_of_equal_ids_below_the_bound() -> None:
    rows = rows_of([1, 5, 5, 9], [7, 7, 7, 7], [0, 1, 2, 3])
    assert ArgmaxPick(source_of(3))(rows, 0) == [1, 0, 2]


def test_edge_behind_the_anchor_outweighs_the_better_logit_as_found_by_hand() -> None:
    predecessors = np.zeros((4, 2), np.float32)
    predecessors[3] = 1
    successors = rows_of([0, 0], [0.1, 0.1], [9, 9], [9, 9])
    selector = CandidateSelector(predecessors, successors, gate=rows_of([1, 2]), top_k=2)
    hidden = rows_of([1])
    candidates, scores = np.array([[0, 1]]), rows_of([1.0, 0.9])
    assert selector.walk(hidden, candidates, scores, 3) == [1]
    assert selector.walk(hidden, candidates, scores, 0) == [0]


def test_each_draft_is_chosen_behind_the_draft_before_it() -> None:
    edges = np.zeros((5, 5), np.float32)
    edges[4, 2] = edges[2, 0] = edges[0, 3] = 10  # 4 -> 2 -> 0 -> 3
    pick = pick_with(selector_of(edges, np.ones((5, 5), np.float32), 4), 4)
    assert pick(rows_of([3, 2, 1, 0, 0], [0, 3, 2, 1, 0], [3, 2, 1, 0.5, 0]), 4) == [2, 0, 3]


def test_gate_is_the_slot_s_own() -> None:
    edges = np.zeros((3, 3), np.float32)
    edges[:, 1] = 1
    gate = np.zeros((3, 3), np.float32)
    gate[2] = 1  # a slot opens its gate with its own third number
    pick = pick_with(selector_of(edges, gate, 2), 2)
    assert pick(rows_of([2, 1, 0], [2, 1, 5], [2, 1, 0.5]), 0) == [0, 1, 0]


def test_token_outside_the_candidates_never_wins() -> None:
    edges = np.zeros((4, 4), np.float32)
    edges[:, 3] = 100
    rows = rows_of([4, 3, 2, 1])
    gate = np.ones((4, 4), np.float32)
    assert pick_with(selector_of(edges, gate, 3), 4)(rows, 0) == [0]
    assert pick_with(selector_of(edges, gate, 4), 4)(rows, 0) == [3]


def test_padded_ids_are_no_candidates_and_take_no_place_among_them() -> None:
    edges = np.zeros((4, 4), np.float32)
    edges[:, 1] = 100
    pick = pick_with(selector_of(edges, np.ones((4, 4), np.float32), 2), 2)
    assert pick(rows_of([2, 1, 9, 9]), 0) == [1]


def test_equal_scores_go_to_the_lowest_id() -> None:
    successors = rows_of([0], [1], [0], [0], [0.5], [0], [2])
    selector = CandidateSelector(np.ones((7, 1), np.float32), successors, gate=rows_of([1]), top_k=3)
    candidates = np.array([[1, 4, 6], [1, 4, 6]])
    scores = rows_of([2, 2.5, 1], [2, 3, 1.5])  # 3, 3, 3 and 3, 3.5, 3.5 with the edges
    assert selector.walk(rows_of([1], [1]), candidates, scores, 0) == [1, 4]


def test_edges_are_added_behind_multiplier_and_cap() -> None:
    edges = np.zeros((2, 2), np.float32)
    edges[:, 1] = 1
    selector = selector_of(edges, rows_of([0, 0.125], [0, 0.125]), 2)
    rows = rows_of([5, 3])  # edge of token 1: 1
    assert pick_with(selector, 2)(rows, 0) == [0]  # 5 against 3 + 1
    assert pick_with(selector, 2, multiplier=0.25)(rows, 0) == [1]  # 1.25 against 0.75 + 1
    assert pick_with(selector, 2, cap=2.0)(rows, 0) == [1]  # 1.97 against 1.81 + 1
    assert pick_with(selector, 2, multiplier=4.0, cap=40.0)(rows, 0) == [0]  # 18.5 against 11.7 + 1


def test_cap_that_rounds_logits_to_equal_ones_cuts_no_candidate() -> None:
    edges = np.zeros((4, 4), np.float32)
    edges[:, 3] = 1
    pick = pick_with(selector_of(edges, np.ones((4, 4), np.float32), 2), 4, cap=1.0)
    assert pick(rows_of([100, 200, 300, 400]), 0) == [3]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.integers(1, 7), st.data())
def test_best_ids_are_the_first_of_a_stable_order(num_ids: int, k: int, data: st.DataObject) -> None:
    few = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan])
    row = data.draw(st.lists(few, min_size=num_ids, max_size=num_ids))
    ordered = sorted(range(num_ids), key=lambda token: (-np.inf if np.isnan(row[token]) else row[token], -token), reverse=True)
    assert best_ids(rows_of(row, row[::-1]), k)[0].tolist() == sorted(ordered[:k])


def test_pick_is_the_one_of_the_pack_s_generation(write_pack: Any) -> None:
    def kind(directory: Path) -> type:
        return type(pick_of(open_pack(directory), source_of(3)))

    assert kind(write_pack()[0]) is ArgmaxPick
    assert kind(write_pack(SECOND)[0]) is SelectorPick
