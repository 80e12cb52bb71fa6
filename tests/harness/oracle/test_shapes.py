"""What rounds show of accept lengths, in words."""

from __future__ import annotations

import pytest

from harness.oracle.shapes import Edge, required, shapes
from harness.records.recording import Round

FULL, PART, NONE = Round((1, 2), 2), Round((1, 2), 1), Round((1, 2), 0)
SHORT = Round((1,), 1)  # what the budget left room for


@pytest.mark.parametrize(
    ("rounds", "edge", "want"),
    [
        ((), Edge.NONE, set()),
        ((FULL,), Edge.NONE, {"2 of 2 accepted", "the first round accepts all", "the last round accepts all"}),
        (
            (NONE, PART),
            Edge.STOP,
            {
                "0 of 2 accepted",
                "1 of 2 accepted",
                "0 accepted, then 1",
                "the first round accepts none",
                "the last round accepts a part",
                "an accepted draft completes a stop",
            },
        ),
        (
            (PART, SHORT),
            Edge.BUDGET,
            {
                "1 of 2 accepted",
                "1 accepted, then 1",
                "the first round accepts a part",
                "the last round accepts all",
                "an accepted draft spends the budget",
            },
        ),
    ],
    ids=["none", "one-full", "a-stop", "a-short-last-round-is-no-length-of-k"],
)
def test_rounds_show_their_full_lengths_turns_places_and_edge(rounds: tuple[Round, ...], edge: Edge, want: set[str]) -> None:
    assert shapes(rounds, 2, edge) == want


def test_each_length_each_kind_of_place_and_both_edges_are_required() -> None:
    assert required(2) == (
        "0 of 2 accepted",
        "1 of 2 accepted",
        "2 of 2 accepted",
        "the first round accepts none",
        "the first round accepts a part",
        "the first round accepts all",
        "the last round accepts none",
        "the last round accepts a part",
        "the last round accepts all",
        "an accepted draft spends the budget",
        "an accepted draft completes a stop",
    )
    assert "the first round accepts a part" not in required(1)
