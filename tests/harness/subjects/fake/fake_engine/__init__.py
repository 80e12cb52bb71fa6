"""An engine without a model: it says and opens what it is told. The ground on which starting and asking are tested."""

MARK = "original"
