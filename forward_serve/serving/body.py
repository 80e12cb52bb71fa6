"""A request body as strict JSON, and typed readers of its fields. Knows no field by name.

Strict: UTF-8, one object, no key twice, no NaN or infinity, no half surrogate pair. `null` counts as not given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from forward_serve.errors import RequestError

T = TypeVar("T")
Reader = Callable[[str, Any], T]  # (field, value) -> the value, checked; raises RequestError

LEAVE_OUT = "correct it or leave it out"
LONGEST_SHOWN = 60  # characters of a value in a message


class _GivenTwiceError(Exception):
    """A key that stands twice in one object."""


def read_object(raw: bytes) -> dict[str, Any]:
    """Decode a request body to its object. Raises RequestError on anything that is not one strict JSON object."""
    try:
        return parse_object(raw.decode("utf-8"), "body")
    except UnicodeDecodeError as error:
        raise RequestError(f"body: not JSON ({error}); send one JSON object in UTF-8") from None


def parse_object(content: str, name: str) -> dict[str, Any]:
    """Parse one strict JSON object. Raises RequestError naming the field that holds it; "body" is none."""
    param = "" if name == "body" else param_of(name)
    try:
        value = json.loads(content, object_pairs_hook=_object_of, parse_constant=_refuse_constant)
    except _GivenTwiceError as error:
        place = f"{name}.{error}" if param else str(error)
        raise RequestError(f"{place}: given twice in one object; give it once", param or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{name}: not JSON ({error}); send one JSON object in UTF-8", param) from None
    if not isinstance(value, dict):
        raise RequestError(f"{name}: {shown(value)} is not an object; send one JSON object", param)
    return value


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise _GivenTwiceError(next(name for name in names if names.count(name) > 1))
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def shown(value: Any) -> str:
    """Render a value for a message, cut where it is long."""
    try:
        text = json.dumps(value)
    except RecursionError:  # it could just be read
        return "a value that is nested too deeply"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def refuse(name: str, value: Any, rule: str, fix: str = LEAVE_OUT) -> NoReturn:
    """Raise RequestError: place, value seen, rule, fix. Its `param` is the body's field, the message has the whole path."""
    raise RequestError(f"{name}: {shown(value)} is not {rule}; {fix}", param_of(name))


def param_of(path: str) -> str:
    """Return the field of the body that a path such as messages[0].role begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


class Fields:
    """The fields of one object. Each is taken once by name; what nobody takes is refused by name."""

    def __init__(self, values: Mapping[str, Any], place: str = "") -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._unknown = dict.fromkeys(values)
        self._place = place

    def take(self, name: str, reader: Reader[T]) -> T | None:
        """Return a field's checked value; None where it is not given."""
        self._unknown.pop(name, None)
        value = self._values.get(name)
        return None if value is None else reader(self.path(name), value)

    def get(self, name: str, reader: Reader[T], default: T) -> T:
        """Return a field's checked value; the default where it is not given."""
        value = self.take(name, reader)
        return default if value is None else value

    def path(self, name: str) -> str:
        """A field's name as errors give it: with the object that it stands in."""
        return f"{self._place}.{name}" if self._place else name

    def refuse_unknown(self) -> None:
        """Raise RequestError for the first field that nobody took."""
        for name in self._unknown:
            param = param_of(self._place) or name
            raise RequestError(f"{self.path(name)}: unknown field; this server ignores nothing, leave it out", param)


def whole(lowest: int, highest: int | None = None) -> Reader[int]:
    """Return a reader of whole numbers from `lowest` to `highest`."""
    rule = f"a whole number of at least {lowest}" if highest is None else f"a whole number from {lowest} to {highest}"

    def read(name: str, value: Any) -> int:
        if type(value) is not int or value < lowest or (highest is not None and value > highest):
            refuse(name, value, rule)
        return value

    return read


def number(lowest: float, highest: float = math.inf, *, above: bool = False) -> Reader[float]:
    """Return a reader of finite numbers from `lowest` (with `above`: above it) to `highest`."""
    rule = f"a number {'above' if above else 'of at least'} {lowest:g}" + (
        f" and at most {highest:g}" if highest < math.inf else ""
    )

    def read(name: str, value: Any) -> float:
        if type(value) not in {int, float} or not _is_finite(value):
            refuse(name, value, rule)
        if value > highest or value < lowest or (above and value == lowest):
            refuse(name, value, rule)
        return float(value)

    return read


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def flag(name: str, value: Any) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        refuse(name, value, "true or false")
    return value


def text(name: str, value: Any) -> str:
    """Read a string that UTF-8 can carry."""
    if not isinstance(value, str):
        refuse(name, value, "a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        refuse(name, value, "a string of whole characters: it holds half a surrogate pair")
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, dict):
        refuse(name, value, "an object")
    return value


def listing(name: str, value: Any) -> list[Any]:
    """Read a list."""
    if not isinstance(value, list):
        refuse(name, value, "a list")
    return value
