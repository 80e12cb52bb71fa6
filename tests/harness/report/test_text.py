"""The closing table and the findings: what a person reads, with everything hostile escaped."""

from __future__ import annotations

from harness.records.finding import CheckResult, Finding, Judgement, Verdict
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Recording, Run, Trace
from harness.report.escape import printable
from harness.report.text import findings_text, gate_table

COUNTS = Counts("spec", "lookup", 2, 8, 3, 1, 6, 0, None, "-")
REQUEST = Request(id="hit-1/6", checks=("same-reply",))
START = Start(id="lookup", arm="lookup", model="tiny", requests=(REQUEST,))


def run(trace: Trace, losses: tuple[str, ...] = ()) -> Run:
    answer = Answer(request_id=REQUEST.id, status=200, counts=COUNTS)
    recording = Recording("fake", START, (answer,), trace, (), None, seconds=1.5)
    plan = Plan(Tier.GATE, "tiny@0", (START,), ("same-reply",))
    return Run(plan, "fake", Declared({"lookup": ArmFacts("lookup")}), (recording,), losses=losses, seconds=2.0)


JUDGEMENT = Judgement(Verdict.LOSSLESS, (CheckResult("same-reply", {"lookup": 1}, ()),))


def test_the_table_sums_requests_engaged_drafted_accepted_and_opens() -> None:
    lines = gate_table(run(Trace(traced=True)), JUDGEMENT).splitlines()
    assert lines[2].split() == ["lookup", "1", "1", "8", "3", "0", "0", "1.50"]
    assert lines[3].split() == ["1", "starts", "1", "1", "8", "3", "0", "0", "2.00"]
    assert "LOSSLESS: 1 checks examined 1 answers of 1 requests, 0 findings; recipe tiny@0" in lines


def test_a_run_that_was_not_traced_says_so_in_every_row_and_in_the_sum() -> None:
    lines = gate_table(run(Trace(traced=False)), JUDGEMENT).splitlines()
    assert [line.count("not traced") for line in lines[2:4]] == [2, 2]


def test_what_the_machine_does_not_allow_and_what_was_not_tested_is_told() -> None:
    judgement = Judgement(Verdict.NOT_TRACED, JUDGEMENT.results, {"device-opens": "tracing was switched off"})
    text = gate_table(run(Trace(traced=True), ("no private mounts",)), judgement)
    assert "lost on this machine: no private mounts" in text
    assert "not tested: device-opens (tracing was switched off)" in text


def test_a_finding_names_place_difference_want_got_and_the_command_that_repeats_it() -> None:
    finding = Finding("same-reply", Verdict.MISMATCH, "lookup", "hit-1/6", "ids differs", (1, 2), (1, 3), 1, "draftproof run")
    assert findings_text([finding]).splitlines() == [
        "same-reply [MISMATCH] at lookup: hit-1/6",
        "  ids differs",
        "  first difference at index 1",
        "  want (1, 2)",
        "  got  (1, 3)",
        "  repeat: draftproof run",
    ]


def test_a_long_sequence_is_shown_around_its_first_difference() -> None:
    want, got = tuple(range(100)), (*range(50), *range(51, 101))
    text = findings_text([Finding("c", Verdict.MISMATCH, "s", "r", "m", want, got, 50)])
    assert "want [46:] (46, 47, 48, 49, 50, 51," in text
    assert "got  [46:] (46, 47, 48, 49, 51, 52," in text


def test_findings_beyond_the_most_are_counted() -> None:
    finding = Finding("c", Verdict.BLIND, "s", "", "m")
    assert findings_text([finding] * 12, most=10).splitlines()[-1] == "and 2 more findings"


def test_text_of_a_subject_cannot_act_on_the_terminal() -> None:
    assert printable("\x1b[2J\rok\u202e") == "\\x1b[2J\\rok\\u202e"
    hostile = Finding("c", Verdict.MISMATCH, "s", "r", "\x1b]0;title\x07", got="\x1b[31m")
    assert "\x1b" not in findings_text([hostile])
