"""What the tests of the families' runners share."""

from __future__ import annotations

import signal
from typing import Any

import pytest


@pytest.fixture
def unblocked() -> Any:
    """The signals that this thread blocks, as they were."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
