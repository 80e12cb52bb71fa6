"""What translations of a plan's request share: which fields have no words, and the simplest words. Knows no dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import UsageError
from harness.records.plan import Request

FROM_PATH = "/v1/completions"  # what a plan's request speaks
Say = Callable[[Any], dict[str, Any]]  # a field's value -> what the dialect has for it; ValueError and its like: nothing


class UntranslatableError(UsageError):
    """A request asks what the dialect cannot say."""


def unsaid(request: Request, fields: Mapping[str, Say]) -> tuple[str, ...]:
    """Return what a request asks that a dialect with these fields cannot say, in words; () where it can all be said."""
    if request.raw is not None or (request.path != FROM_PATH and request.method == "POST"):
        return (f"a request of its own kind to {request.path}",)
    found = []
    for name, value in (request.body or {}).items():
        if name not in fields:
            found.append(f"field {name}")
            continue
        try:
            fields[name](value)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            found.append(f"field {name}={value!r} ({error})")
    return tuple(found)


def as_named(name: str) -> Say:
    """Return a field of another name and the same meaning; null asks for nothing."""
    return lambda value: {} if value is None else {name: value}


def nothing(_value: Any) -> dict[str, Any]:
    """Say nothing: every answer has it."""
    return {}
