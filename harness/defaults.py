"""What every face of the tool takes where nothing else is said. Imports nothing."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]  # of the project
DEFAULT_RECIPE = ROOT / "fixtures" / "recipes" / "tiny.toml"
