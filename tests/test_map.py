"""docs/map.md names every module with the first sentence of its docstring; `python tests/test_map.py` writes it anew."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "map.md"
HEAD = "# Every module in one line\n\nWritten from the modules' docstrings; a test compares.\n"


def map_text() -> str:
    """Return what docs/map.md must say."""
    lines = [HEAD]
    for package in ("forward_serve", "harness"):
        folder = ""
        for path in sorted((ROOT / package).rglob("*.py"), key=lambda path: (path.parent, path.name)):
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
            if path.name == "__init__.py":
                continue
            if str(path.parent) != folder:
                folder = str(path.parent)
                lines.append(f"\n## {path.parent.relative_to(ROOT)}/\n")
            lines.append(f"- `{path.name}`: {docstring.splitlines()[0] if docstring else 'no docstring'}")
    return "\n".join(lines) + "\n"


def test_the_map_names_every_module_with_its_own_words() -> None:
    assert MAP.read_text() == map_text()


if __name__ == "__main__":
    sys.stdout.write(map_text())
