from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.escape import command_data, command_property, log_line, markdown, xml_text

HOSTILE = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["\x1b[2J", "::set-output name=x::y", "  ::error::", "##[group]", "a\r\n::stop::", "\x00\x08\x7f", "\u202e", "<b>|`@x", "%0A"]
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("   ::add-mask::x", r"\x3a:add-mask::x"),
        ("see ##[error]x", r"see #\x23[error]x"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\r\nb", r"a\r\nb"),
        ("plain: text", "plain: text"),
    ],
)
def test_a_line_of_a_log_holds_no_command_and_no_control_character(text: str, want: str) -> None:
    assert log_line(text) == want


@given(HOSTILE)
@settings(max_examples=100, deadline=None)
def test_no_text_makes_a_log_line_a_command(text: str) -> None:
    line = log_line(text)
    assert line.isprintable()
    assert not line.lstrip().startswith("::")
    assert "##[" not in line


@given(HOSTILE)
@settings(max_examples=100, deadline=None)
def test_any_text_makes_well_formed_xml(text: str) -> None:
    element = ET.Element("e", message=xml_text(text))
    element.text = xml_text(text)
    parsed = ET.fromstring(ET.tostring(element, encoding="unicode").encode())  # noqa: S314  # written a line above
    assert parsed.text == (xml_text(text) or None)


def test_what_xml_forbids_is_shown_as_an_escape() -> None:
    assert xml_text("a\x00b\x1b\ud800\ufffe") == r"a\x00b\x1b\ud800\ufffe"


def test_a_workflow_command_cannot_be_ended_by_its_own_text() -> None:
    assert command_data("a%\r\n::b") == "a%25%0D%0A::b"
    assert command_property("a:b,c\n") == "a%3Ab%2Cc%0A"


@given(HOSTILE)
@settings(max_examples=100, deadline=None)
def test_markdown_holds_neither_markup_nor_a_mention(text: str) -> None:
    shown = markdown(text)
    assert not set(shown) & set("<>|`*_[]()@\n\r")


def test_markdown_reads_back_as_the_text() -> None:
    assert markdown("<a> & 'b' |x| #1") == "&lt;a&gt; &amp; 'b' &#124;x&#124; &#35;1"
