"""The two renderings of a record, on the examples of their documentation."""

from __future__ import annotations

from dataclasses import replace

from forward_serve.serving import speclog
from forward_serve.serving.speclog import DecodingPath, SpecRecord

RECORD = SpecRecord("cmpl-7", DecodingPath.SPEC, "lookup", 5, 20, 6, 3, 14, 0, None, "-", (((1, 2, 3), 2), ((4,), 0)))


def test_the_line_is_the_documented_one() -> None:
    assert RECORD.line() in (speclog.__doc__ or "")


def test_the_line_of_a_fallen_back_request_holds_the_record_count_and_the_reason() -> None:
    line = replace(RECORD, path=DecodingPath.PLAIN, fallback=0, reason="sampled").line()
    assert line.endswith(" cached=0 fallback=0 reason=sampled")
    assert " path=plain " in line


def test_usage_has_the_lines_values_and_every_round() -> None:
    usage = RECORD.usage()
    pairs = dict(pair.split("=") for pair in RECORD.line().split()[2:])
    assert list(usage) == [*pairs, "per_round"]
    assert {key: "-" if value is None else str(value) for key, value in usage.items() if key != "per_round"} == pairs
    assert usage["per_round"] == [[[1, 2, 3], 2], [[4], 0]]
