from __future__ import annotations

import msgspec
import pytest

from harness.checks.fallback import AT_THE_BAR, AT_THE_WINDOW, LAST_WINDOW, STAYS_OFF
from harness.records.finding import Verdict
from harness.records.plan import Tier
from harness.records.recording import Run
from tests.harness.checks.families import blind, findings, places, result, run_of
from tests.harness.checks.ideal import Fault, altered, fixture

CHECK = "fallback-round"
KEEPS, THROWS = "fallback-2-3/lookup", "fallback-2.5-3/lookup"


def without(run: Run, *start_ids: str, role: str = "") -> Run:
    """Return the run as if its plan had never made these starts, nor asked the streams of a role."""
    names = tuple(f"{stream.name}/" for stream in fixture().of_role(role))
    starts = tuple(
        msgspec.structs.replace(one, requests=tuple(r for r in one.requests if not (names and r.id.startswith(names))))
        for one in run.plan.starts
        if one.id not in start_ids
    )
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))


@pytest.mark.parametrize("tier", list(Tier))
def test_a_right_engine_falls_back_as_the_oracle_does(tier: Tier) -> None:
    run = run_of(CHECK, tier=tier)
    got = result(CHECK, run)
    assert got.findings == ()
    assert set(got.examined) == {start.id for start in run.plan.starts if start.reference and start.parameters["fallback_below"]}


@pytest.mark.parametrize(
    ("fault", "places_seen"),
    [
        (Fault.OFF_IGNORED, [(KEEPS, "decoy-1/24"), (KEEPS, "burst-1/24"), (THROWS, "constant-1/24"), (THROWS, "decoy-1/24")]),
        (Fault.NO_RECORD, [(KEEPS, "decoy-1/24"), (KEEPS, "burst-1/24"), (THROWS, "constant-1/24"), (THROWS, "decoy-1/24")]),
        (Fault.RECORD_TAKE, [(KEEPS, "constant-1/24")]),
        (Fault.WINDOW_IGNORED, [(KEEPS, "decoy-1/24"), (THROWS, "constant-1/24"), (THROWS, "decoy-1/24")]),
        (Fault.MEAN_OF_ALL, [(THROWS, "burst-1/24")]),
        (Fault.BELOW_OR_EQUAL, [(KEEPS, "constant-1/24")]),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_a_fault_of_the_rule_shows_in_the_mutation_slice(fault: Fault, places_seen: list[tuple[str, str]]) -> None:
    got = findings(CHECK, run_of(CHECK, fault))
    assert set(places_seen) <= set(places(got))
    assert {one.verdict for one in got} == {Verdict.WRONG_PATH}


def test_drafting_on_after_the_rule_threw_is_named_as_such() -> None:
    (got, *_) = [one for one in findings(CHECK, run_of(CHECK, Fault.OFF_IGNORED)) if one.request == "decoy-1/24"]
    assert got.message == "kept drafting against the rule (below=2 window=3, fallback=3)"
    assert got.want == 3


def test_throwing_at_exactly_the_bar_names_both_records() -> None:
    got = findings(CHECK, run_of(CHECK, Fault.BELOW_OR_EQUAL))
    (one,) = (one for one in got if one.request == "constant-1/24")
    assert (one.message, one.want, one.got) == ("fallback (below=2 window=3) is not the oracle's", "-", "3")


@pytest.mark.parametrize("want", [1, 3, 5])
def test_a_decoy_is_off_after_exactly_each_window_of_the_gate(want: int) -> None:
    run = run_of(CHECK, tier=Tier.GATE)
    thrown = {
        recording.start.parameters["fallback_window"]: answer.counts.fallback
        for recording in run.recordings
        if recording.start.reference
        for answer in recording.answers
        if answer.request_id == "decoy-1/24" and answer.counts
    }
    assert thrown[want] == want


def test_a_text_changed_by_falling_back_is_a_finding() -> None:
    (got,) = findings(CHECK, altered(run_of(CHECK), THROWS, "decoy-1/24", reply={"text": "x"}))
    assert (got.start, got.request, got.message) == (THROWS, "decoy-1/24", "text of the plain arm differs")


@pytest.mark.parametrize(
    ("starts", "role", "missing"),
    [
        ((KEEPS,), "", {AT_THE_BAR}),
        ((), "constant", {AT_THE_BAR}),
        ((THROWS,), "burst", {LAST_WINDOW}),
    ],
)
def test_fallback_round_is_blind_where_a_side_of_the_rule_was_not_exercised(
    starts: tuple[str, ...], role: str, missing: set[str]
) -> None:
    got = blind(findings(CHECK, without(run_of(CHECK), *starts, role=role)))
    assert {f"no request of the plan {side}" for side in missing} <= set(got)


def test_fallback_round_is_blind_where_nothing_ever_throws() -> None:
    run = without(without(run_of(CHECK), THROWS, role="decoy"), role="burst")
    got = blind(findings(CHECK, run))
    assert {f"no request of the plan {side}" for side in (AT_THE_WINDOW, LAST_WINDOW, STAYS_OFF)} == set(got)


def test_a_start_without_the_rule_is_not_read() -> None:
    assert "lookup" not in result(CHECK, run_of("hit-miss-decoy")).examined
