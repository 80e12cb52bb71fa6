"""Regular expressions as grammars: what is taken over, and what is refused rather than changed."""

from __future__ import annotations

import pytest

from harness.oracle.constraints import CONSTRAINTS
from harness.subjects.gbnf import grammar_of


@pytest.mark.parametrize(
    ("pattern", "grammar"),
    [
        ("[A-Z]{6}", "root ::= [A-Z]{6}"),
        ("([a-m][n-z]){4}", "root ::= ( [a-m] [n-z] ){4}"),
        ("cat|caterpillar", 'root ::= "c" "a" "t" | "c" "a" "t" "e" "r" "p" "i" "l" "l" "a" "r"'),
        ("[0-9]{2}(-[0-9]{2})*", 'root ::= [0-9]{2} ( "-" [0-9]{2} )*'),
        ("a+b?c{2,3}d{1,}", 'root ::= "a"+ "b"? "c"{2,3} "d"{1,}'),
        (r"[^\]a]\.\\", r'root ::= [^\]a] "." "\\"'),
        ('"', r'root ::= "\""'),
    ],
)
def test_an_expression_becomes_the_grammar_of_the_same_texts(pattern: str, grammar: str) -> None:
    assert grammar_of(pattern) == grammar


@pytest.mark.parametrize(
    "pattern", ["a.b", "^a", "a$", r"\d", r"\w+", "(?:a)", "a*?", "a++", "*a", "{2}", "(*a)", "(a", "a)", "[a", "[]", r"a\b"]
)
def test_an_expression_that_would_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not taken over|not closed"):
        grammar_of(pattern)


def test_every_expression_that_plans_use_is_taken_over() -> None:
    asked = [one.fields["structured_outputs"] for one in CONSTRAINTS if "structured_outputs" in one.fields]
    patterns = [fields["regex"] for fields in asked if "regex" in fields]
    assert patterns
    assert all(grammar_of(pattern).startswith("root ::= ") for pattern in patterns)
