"""Pinned faults in the closing table: a line for each, with the shortest request that repeats it."""

from __future__ import annotations

from harness.records.finding import CheckResult, Finding, Judgement, Verdict
from harness.records.known import KnownFault
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import ArmFacts, Declared, Run
from harness.report.known import known_lines
from harness.report.text import gate_table

FAULT = KnownFault("f", "title", "https://example.org/1", "context-end", ("a", "b"))
OTHER = KnownFault("g", "title", "https://example.org/2", "stream-join", ("a",))


def request(name: str, size: int, budget: int) -> Request:
    return Request(name, ("context-end",), body={"max_tokens": budget}, prompt_ids=(1,) * size)


STARTS = (
    Start("a", "a", "tiny", (request("long", 16, 40), request("short", 16, 5))),
    Start("b", "b", "tiny", (request("middle", 16, 9),)),
)


def judgement(*findings: Finding) -> Judgement:
    return Judgement(Verdict.LOSSLESS, (CheckResult("context-end", {"a": 3}, findings),))


def found(start: str, request_id: str, known: str = "f", check: str = "context-end") -> Finding:
    return Finding(check, Verdict.MISMATCH, start, request_id, "ids differs", known=known)


RUN = Run(Plan(Tier.GATE, "tiny@1", STARTS, ()), "s", Declared({"a": ArmFacts()}, known_faults=(FAULT, OTHER)), ())


def test_a_pinned_fault_has_a_line_with_its_arms_and_the_shortest_request() -> None:
    got = list(
        known_lines(RUN, judgement(found("a", "long"), found("b", "middle"), found("a", "short"), found("a", "long", "", "x")))
    )
    assert got == [
        "XFAIL f (context-end): 3 findings on a, b; shortest: a asked short (16 ids and 5 tokens); https://example.org/1",
    ]


def test_of_a_finding_on_a_start_the_shortest_request_that_its_check_reads_is_named() -> None:
    (line,) = known_lines(RUN, judgement(found("a", "")))
    assert "shortest: a asked short" in line


def test_findings_that_are_pinned_are_not_counted_in_the_table() -> None:
    table = gate_table(RUN, judgement(found("a", "long"), found("b", "middle", known="")))
    assert "1 findings" in table
    assert "XFAIL f (context-end): 1 findings on a" in table
