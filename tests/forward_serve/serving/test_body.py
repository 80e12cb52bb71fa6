"""Strict JSON bodies: what is no body at all."""

from __future__ import annotations

import pytest

from forward_serve.errors import RequestError
from forward_serve.serving.body import Fields, flag, read_object


def test_an_object_is_read() -> None:
    assert read_object('{"prompt": "é", "n": null}'.encode()) == {"prompt": "é", "n": None}


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "not an object"),
        (b'"text"', "not an object"),
        (b'{"temperature": NaN}', "NaN is no JSON number"),
        (b'{"temperature": -Infinity}', "-Infinity is no JSON number"),
        (b'{"prompt": "\xff"}', "not JSON"),
        ('{"prompt": "a"}'.encode("utf-16"), "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_one_strict_object_is_refused(raw: bytes, rule: str) -> None:
    with pytest.raises(RequestError, match=rule):
        read_object(raw)


def test_a_field_given_twice_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="given twice") as caught:
        read_object(b'{"prompt": "a", "seed": 1, "seed": 2}')
    assert caught.value.param == "seed"


def test_what_nobody_takes_is_refused_by_its_path_and_the_bodys_field() -> None:
    fields = Fields({"include_usage": True, "x": 1}, "stream_options")
    assert fields.take("include_usage", flag) is True
    with pytest.raises(RequestError, match=r"stream_options\.x: unknown field") as caught:
        fields.refuse_unknown()
    assert caught.value.param == "stream_options"


def test_null_is_not_given_and_not_unknown() -> None:
    fields = Fields({"stream": None})
    assert fields.get("stream", flag, default=False) is False
    fields.refuse_unknown()
