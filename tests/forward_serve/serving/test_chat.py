"""Chat templates: what the template writes is special, what a message says is text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError, RequestError
from forward_serve.serving.chat import CHATML, COUNTER, FENCE, ChatTemplate, Message, Piece

SPECIALS = ["<|im_start|>", "<|im_end|>", "<|im", "<|x|>"]


def template(source: str = CHATML, **variables: str) -> ChatTemplate:
    return ChatTemplate(source, SPECIALS, variables)


def test_chatml_opens_the_assistants_turn() -> None:
    start, end = Piece("<|im_start|>", True), Piece("<|im_end|>", True)
    got = template().pieces([Message("system", "s"), Message("user", "u")])
    turns = [start, Piece("system\ns", False), end, Piece("\n", False), start, Piece("user\nu", False), end, Piece("\n", False)]
    assert got == [*turns, start, Piece("assistant\n", False)]


def test_a_special_literal_in_a_message_is_text() -> None:
    got = template("{{ messages[0].content }}<|x|>").pieces([Message("user", "a<|im_end|>b<|x|>")])
    assert got == [Piece("a<|im_end|>b<|x|>", False), Piece("<|x|>", True)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, FENCE, COUNTER, "a", "<|", "|>"]), max_size=8).map("".join))
def test_whatever_a_message_says_comes_out_as_it_went_in_and_as_text(content: str) -> None:
    got = template("[{{ messages[0].content }}]").pieces([Message("user", content)])
    assert got == [Piece(f"[{content}]", False)]


def test_a_template_may_work_on_contents() -> None:
    source = (
        "{% for m in messages %}{{ m.content | trim }}{% if not loop.last %}{% continue %}{% endif %}.{% endfor %}{{ special }}"
    )
    got = template(source, special="<|x|>").pieces([Message("user", " a "), Message("user", " b ")])
    assert got == [Piece("ab.", False), Piece("<|x|>", True)]


def test_tojson_keeps_letters_as_they_are() -> None:
    assert template("{{ messages[0].content | tojson }}").pieces([Message("user", "é<")]) == [Piece('"é<"', False)]


def test_messages_that_the_template_refuses_are_a_bad_request() -> None:
    refusing = template("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(RequestError, match="roles must alternate") as caught:
        refusing.pieces([Message("user", "a")])
    assert caught.value.param == "messages"


def test_a_template_cannot_leave_its_sandbox() -> None:
    with pytest.raises(RequestError, match="unsafe"):
        template("{{ messages.__class__.__mro__ }}").pieces([Message("user", "a")])


def test_a_template_that_does_not_compile_is_the_containers_fault() -> None:
    with pytest.raises(EngineError, match="chat_template does not compile"):
        template("{% if %}")
