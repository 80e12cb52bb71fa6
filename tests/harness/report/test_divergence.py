"""A divergence as text: every line, and nothing in it that a terminal could act on."""

from __future__ import annotations

from harness.records.divergence import Divergence, Gap, GapSource, Side, Spot, Unit
from harness.records.finding import Finding, Verdict
from harness.records.recording import Round
from harness.report.divergence import divergence_lines
from harness.report.text import findings_text

TOKENS = Divergence(
    unit=Unit.TOKENS,
    index=2,
    want=Side((7, 8), "()", 4),
    got=Side((), "", 2),
    shared_ids=(5, 6),
    shared_text="&'",
    gap=Gap(GapSource.FORWARD, "7", "9", 0.25, 0.5),
    spot=Spot(0, 1),
    taken=Round((6, 9), 1),
    predicted_spot=Spot(0, 2),
    predicted=Round((6, 7), 2),
)


def test_a_divergence_in_tokens_tells_place_sides_gap_round_and_prediction() -> None:
    assert list(divergence_lines(TOKENS)) == [
        "first differing token 2, behind 2 equal ones: 5 6 '&''",
        "  want id 7 8 '()' of 4 tokens",
        "  got  nothing: it ends with 2 tokens",
        "  plain's best two there: id 7 leads id 9 by 0.25 (the oracle's float64 forward); what was got is 0.5 behind the first",
        "  committed by round 0, slot 1 (draft 1); its drafts 6 9, 1 accepted",
        "  predicted by round 0, slot 2 (draft 2); its drafts 6 7, 2 accepted",
    ]


def test_what_is_not_known_is_said_with_its_reason() -> None:
    unknown = Divergence(
        unit=Unit.CHARACTERS,
        index=1,
        want=Side((), "bc", 3),
        got=Side((), "", 1),
        shared_ids=(),
        shared_text="a",
        gap_unknown="no ids",
        spot_unknown="no rounds",
        predicted_unknown="no oracle",
    )
    assert list(divergence_lines(unknown)) == [
        "first differing character 1, behind 1 equal ones: 'a'",
        "  want 'bc' of 3 characters",
        "  got  nothing: it ends with 1 characters",
        "  plain's best two there: not known (no ids)",
        "  committed by a round that is not known (no rounds)",
        "  predicted by a round that is not known (no oracle)",
    ]


def test_a_plain_step_and_the_very_first_token_are_told_as_such() -> None:
    first = Divergence(Unit.TOKENS, 0, Side((1,), "x", 1), Side((2,), "y", 1), (), "", spot=Spot(None), predicted_spot=Spot(None))
    lines = list(divergence_lines(first))
    assert lines[0] == "first differing token 0, behind none that is equal"
    assert lines[4] == "  committed by no round: a plain step, or the last token, which no pass ran"


def test_hostile_text_of_a_subject_is_escaped_in_every_line() -> None:
    bad = "\x1b[2J\r"
    hostile = Divergence(
        unit=Unit.TOKENS,
        index=1,
        want=Side((1,), bad, 2),
        got=Side((2,), bad, 2),
        shared_ids=(3,),
        shared_text=bad,
        gap=Gap(GapSource.LOGPROBS, bad, bad, 1.0),
        spot_unknown=bad,
        predicted_unknown=bad,
    )
    text = findings_text([Finding("c", Verdict.MISMATCH, "s", "r", "ids differs", (3, 1), (3, 2), 1, divergence=hostile)])
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.count("\\x1b[2J\\r") == 7
