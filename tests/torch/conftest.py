"""The marker of the tests that need torch and the published `dflash` package, which an ordinary set-up does not install."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker: `-m "not torch"` leaves these tests out even where both are installed."""
    config.addinivalue_line("markers", "torch: runs the published dflash package on torch")
