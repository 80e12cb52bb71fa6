"""The error of this room. It does not know which check would have failed later."""

from harness.errors import UsageError


class FabricationError(UsageError):
    """A recipe is well formed, but what it asks for could not be made or did not verify."""
