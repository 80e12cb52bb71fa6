"""Text that a subject may have chosen, made harmless for the place where it is written."""

from __future__ import annotations

import html
import re

from harness.report.escape import printable

_NOT_XML = re.compile("[^\t\n -~\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
_LEGACY_COMMAND = "##["
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$@:^])")


def one_line(text: str) -> str:
    """Return text as one line in which no character can act on a terminal."""
    return printable(text)


def log_line(line: str) -> str:
    """Return one line of a log in which no workflow command (`::`, `##[`) is left and nothing acts on a terminal."""
    shown = printable(line).replace(_LEGACY_COMMAND, r"#\x23[")
    return r"\x3a" + shown.lstrip()[1:] if shown.lstrip().startswith("::") else shown


def xml_text(text: str) -> str:
    r"""Return text in which what XML 1.0 forbids (and a carriage return) is written as \xNN; the writer escapes the rest."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def command_data(text: str) -> str:
    """Return text as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """Return text as a property of a workflow command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(text: str) -> str:
    """Return text as one line of Markdown in which nothing is markup, a link or a mention."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[0])};", html.escape(printable(text), quote=False))
