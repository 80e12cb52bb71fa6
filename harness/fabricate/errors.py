"""The errors of this room. They do not know which check would have failed later."""

from harness.errors import UsageError


class FabricationError(UsageError):
    """A recipe is well formed, but what it asks for could not be made or did not verify."""


class BoundError(FabricationError):
    """A part was made and misses a bound: with other seeds it may meet it."""


class UnshownError(BoundError):
    """A fault that was planted in the readers of packs changes no id. `pack` is the one to draw again."""

    def __init__(self, message: str, pack: str) -> None:
        super().__init__(message)
        self.pack = pack
