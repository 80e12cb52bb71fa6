"""Lines on stderr."""

from __future__ import annotations

import pytest

from forward_serve.serving.log import described, log_line


def test_a_message_of_several_lines_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    log_line("a\n b\r\nc")
    assert capfd.readouterr().err == "a b c\n"


def test_an_error_is_described_with_the_place_that_raised_it() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    assert described(caught.value).startswith("ZeroDivisionError: integer division or modulo by zero (test_log.py:")
