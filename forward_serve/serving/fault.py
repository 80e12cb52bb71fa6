"""A pass that fails on purpose (`--fail-pass N`), so that harnesses can see what a failed forward leaves behind."""

from __future__ import annotations

from forward_serve.errors import EngineError


class InjectedFaultError(EngineError):
    """The pass that was asked to fail."""


class PassFault:
    """A base's `pass_hook`: raises once, in the N-th pass, after its first KV row was written."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._num_passes = 0

    def __call__(self) -> None:
        """Count a pass. Raises InjectedFaultError in the N-th."""
        self._num_passes += 1
        if self._num_passes == self._number:
            raise InjectedFaultError(f"pass {self._number} after ready failed, as --fail-pass={self._number} asked")
