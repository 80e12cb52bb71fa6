"""Which Host headers and addresses name this machine."""

from __future__ import annotations

import pytest

from forward_serve.serving.hosts import header_names_loopback, is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8000", "127.9.9.9:1", "[::1]", "[::1]:8000", "localhost:"]
)
def test_a_header_that_names_this_machine(host: str) -> None:
    assert header_names_loopback(host) is True


@pytest.mark.parametrize(
    "host",
    [
        *("", "example.org", "localhost.example.org", "192.168.0.1:80", "0.0.0.0", "[::]", "[2001:db8::1]:80"),  # noqa: S104
        *("127.0.0.1:x", "127.0.0.1@example.org", "user@localhost", "::1", "127.0.0.1 ", "localhost:80:80", "2130706433"),
    ],
)
def test_a_header_that_does_not(host: str) -> None:
    assert header_names_loopback(host) is False


def test_addresses_as_a_flag_gives_them() -> None:
    assert [is_loopback(name) for name in ("::1", "127.0.0.1", "localhost", "::", "0.0.0.0", "host")] == [  # noqa: S104
        True,
        True,
        True,
        False,
        False,
        False,
    ]
