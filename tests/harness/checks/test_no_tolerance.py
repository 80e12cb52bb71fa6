"""No check compares with a tolerance, by `ast`, but for those in harness/checks/statistical; and the reading sees what it is to see."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKS = Path(__file__).parents[3] / "harness" / "checks"
MODULES = sorted(path for path in CHECKS.rglob("*.py") if "statistical" not in path.relative_to(CHECKS).parts)

LENIENT_CALLS = {
    *("isclose", "allclose", "assert_allclose", "assert_almost_equal", "assertAlmostEqual", "approx"),
    *("round", "rint", "around", "floor", "ceil", "trunc", "quantize", "finfo", "ulp", "nextafter"),
}
LENIENT_NAMES = {"epsilon", "eps", "rtol", "atol", "rel_tol", "abs_tol", "tolerance"}
DISTANCES = {"abs", "fabs", "absolute", "dist", "hypot", "norm"}
BELOW_ONE = 1.0
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def leniencies(tree: ast.AST) -> Iterator[str]:
    """Yield every place at which a module could let two values that differ count as equal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in LENIENT_CALLS:
            yield f"line {node.lineno}: {name_of(node.func)}()"
        elif isinstance(node, ast.Name | ast.Attribute | ast.arg | ast.keyword) and name_of(node) in LENIENT_NAMES:
            yield f"line {node.lineno}: {name_of(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < BELOW_ONE:
            yield f"line {node.lineno}: the small number {node.value}"
        elif isinstance(node, ast.Compare) and is_ordered(node) and any(map(is_distance, (node.left, *node.comparators))):
            yield f"line {node.lineno}: a distance is compared"


def is_ordered(node: ast.Compare) -> bool:
    """Whether a comparison asks which side is larger."""
    return any(isinstance(one, ORDERED) for one in node.ops)


def is_distance(node: ast.expr) -> bool:
    """Whether an expression is how far two things are apart: abs(...), a squared difference, the larger of two differences."""
    if isinstance(node, ast.UnaryOp):
        return is_distance(node.operand)
    if isinstance(node, ast.BinOp):
        is_square = isinstance(node.op, ast.Pow) and is_difference(node.left)
        return is_square or (isinstance(node.op, ast.Div) and is_distance(node.left))
    if not isinstance(node, ast.Call):
        return False
    return name_of(node.func) in DISTANCES or (name_of(node.func) in {"max", "sum"} and any(map(is_difference, node.args)))


def is_difference(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def name_of(node: ast.AST) -> str:
    """Return the last word of a name, an attribute, an argument or a keyword; "" of anything else."""
    return next((word for field in ("id", "attr", "arg") if isinstance(word := getattr(node, field, None), str)), "")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CHECKS)))
def test_a_check_outside_of_statistical_holds_no_tolerance(path: Path) -> None:
    assert list(leniencies(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_the_modules_that_are_read_are_all_but_the_statistical_ones() -> None:
    assert {"counts.py", "replies.py", "logprobs.py", "judge.py"} <= {path.name for path in MODULES}
    left = set(CHECKS.rglob("*.py")) - set(MODULES)
    assert {path.parent.name for path in left} == {"statistical"}


@pytest.mark.parametrize(
    "planted",
    [
        "import math\nok = math.isclose(a, b)",
        "ok = np.allclose(a, b)",
        "ok = a == pytest.approx(b)",
        "ok = abs(a - b) < 3",
        "ok = bound >= abs(a - b)",
        "ok = abs(a - b) / b <= bound",
        "ok = -abs(a - b) > low",
        "ok = math.fabs(a - b) < bound",
        "ok = (a - b) ** 2 < bound",
        "ok = max(a - b, b - a) <= bound",
        "ok = round(a, 6) == round(b, 6)",
        "ok = a - b < 1e-9",
        "ok = low < a - b < 0.001",
        "ok = a - b < sys.float_info.epsilon",
        "ok = a - b < np.finfo(float).eps",
        "def same(a, b, tolerance): return a - b < tolerance",
        "same(a, b, rel_tol=bound)",
        "BAND = 1e-4",
    ],
)
def test_a_planted_tolerance_is_seen(planted: str) -> None:
    assert list(leniencies(ast.parse(planted))) != []


@pytest.mark.parametrize(
    "exact",
    ["ok = a == b", "ok = a - b in (0, 1)", "ok = abs(a) == b", "ok = len(a) < len(b)", "bar = 2.5", "ok = mean < bar * 3"],
)
def test_an_exact_comparison_is_none(exact: str) -> None:
    assert list(leniencies(ast.parse(exact))) == []
