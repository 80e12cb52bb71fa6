"""Grammars: what may come next, where a reply may end, and what is refused."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError, RequestError
from forward_serve.serving.constraint import Constraint, Grammars
from forward_serve.serving.request import Grammar, GrammarKind
from forward_serve.serving.tokenizer import Tokenizer
from tests.forward_serve.serving.test_tokenizer import CONFIG, TEXT
from tests.forward_serve.serving.toy import END, SPECIAL, VOCAB, grammars, tokenizer_json

IM_END, ENDOFTEXT = 185, 187


def regex(source: str) -> Grammar:
    return Grammar(GrammarKind.REGEX, source, "structured_outputs.regex")


def schema(value: dict[str, Any]) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(value), "structured_outputs.json")


def begun(grammar: Grammar, *, ignore_eos: bool = False) -> Constraint:
    return grammars().begin(grammar, ignore_eos)


def golden() -> tuple[Grammars, Tokenizer]:
    tokenizer = Tokenizer(TEXT, CONFIG)
    return Grammars(TEXT, tokenizer.special_ids, 256, {IM_END, ENDOFTEXT}), tokenizer


def allowed(constraint: Constraint) -> set[int]:
    return {token for token, is_allowed in enumerate(constraint.allowed.tolist()) if is_allowed}


def test_only_what_the_grammar_goes_on_with_is_allowed_and_end_tokens_where_it_may_end() -> None:
    constraint = begun(regex("ab*|c"))
    assert allowed(constraint) == {*b"ac"}
    assert constraint.take(ord("a")) is True
    assert allowed(constraint) == {ord("b"), END}
    assert constraint.take(ord("b")) is True
    assert allowed(constraint) == {ord("b"), END}


def test_a_grammar_at_its_end_allows_end_tokens_alone() -> None:
    constraint = begun(regex("ab"))
    assert [constraint.take(ord("a")), constraint.take(ord("b"))] == [True, True]
    assert allowed(constraint) == {END}


def test_where_end_tokens_are_ignored_nothing_may_follow_a_grammars_end() -> None:
    constraint = begun(regex("ab"), ignore_eos=True)
    assert [constraint.take(ord("a")), constraint.take(ord("b"))] == [True, False]
    assert allowed(constraint) == set()


def test_an_end_token_that_is_a_letter_of_the_grammar_ends_it_and_is_no_letter() -> None:
    constraint = begun(regex("b(\x04|c)*"))
    assert allowed(constraint) == {ord("b")}
    constraint.take(ord("b"))
    assert allowed(constraint) == {ord("c"), END}


def test_where_end_tokens_are_ignored_one_of_them_is_a_letter_again() -> None:
    assert allowed(begun(regex("(\x04|c)*"), ignore_eos=True)) == {ord("c"), END}


def test_an_end_token_above_the_bound_is_none() -> None:
    constraint = Grammars(tokenizer_json(), {SPECIAL}, VOCAB, {VOCAB, 10_000}).begin(regex("ab"), False)
    assert [constraint.take(ord("a")), constraint.take(ord("b"))] == [True, False]


def test_an_expression_for_the_empty_reply_allows_end_tokens_alone() -> None:
    assert allowed(begun(regex(""))) == {END}


def test_the_literal_of_a_special_token_is_text_and_the_token_is_never_allowed() -> None:
    constraint = begun(regex(re.escape("<|special|>")))
    for character in b"<|special|>":
        assert allowed(constraint) == {character}
        constraint.take(character)
    assert allowed(constraint) == {END}
    assert SPECIAL not in allowed(begun(regex("(.|\n)*")))


def test_every_end_token_of_the_golden_tokenizer_may_end_a_grammar() -> None:
    compiler, tokenizer = golden()
    constraint = compiler.begin(regex("é?"), False)
    assert allowed(constraint) == {IM_END, ENDOFTEXT, tokenizer.encode("é")[0]}
    for token in tokenizer.encode("é"):
        constraint.take(token)
    assert allowed(constraint) == {IM_END, ENDOFTEXT}


def test_ids_have_the_bytes_that_the_tokenizer_says() -> None:
    compiler, tokenizer = golden()
    everything = compiler.begin(regex("(?s:.)"), False)
    one_byte = {token for token in range(256) if token not in tokenizer.special_ids and tokenizer.token_bytes(token)[0] < 0x80}
    assert one_byte <= allowed(everything)
    for token in one_byte:
        constraint = compiler.begin(regex(re.escape(tokenizer.token_bytes(token).decode())), False)
        assert allowed(constraint) == {token}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_chosen_among_the_allowed_the_reply_matches_or_is_the_beginning_of_a_match(data: st.DataObject) -> None:
    source, is_viable = data.draw(st.sampled_from(EXPRESSIONS))
    constraint = begun(regex(source))
    text = ""
    for _ in range(12):
        token = data.draw(st.sampled_from(sorted(allowed(constraint))))
        if token == END:
            assert re.fullmatch(source, text)
            return
        assert constraint.take(token)
        text += chr(token)
        assert (END in allowed(constraint)) == (re.fullmatch(source, text) is not None)
        assert re.fullmatch(is_viable, text)


# With an expression for every beginning of a match.
EXPRESSIONS = [("(ab)+c?", "(ab)*(a|c?)"), ("[0-9]{4}", "[0-9]{0,4}"), ("x(y|zz)*", "(x(y|zz)*z?)?"), ("a|bcd", "a?|b|bc|bcd")]


def test_a_json_schema_is_followed_key_by_key() -> None:
    constraint = begun(schema({"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "x-unknown": 1}))
    assert allowed(constraint) == {ord("{")}
    for character in b'{"a":1}':
        assert character in allowed(constraint)
        constraint.take(character)
    assert allowed(constraint) == {END}


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        (regex("("), r"structured_outputs\.regex: not a regular expression .*unclosed group.*; correct it"),
        (regex(r"[^\s\S]"), "no token of this model goes on with it"),
        (regex("a\\"), "it ends inside an escape"),
        (regex("é"), "no token of this model goes on with it"),
        (schema({"type": "frob"}), r"structured_outputs\.json: not a JSON schema .*Invalid type: frob"),
        (schema({"type": "string", "minLength": 3, "maxLength": 2}), "Unsatisfiable schema"),
        (schema({"not": {}}), "Unimplemented keys"),
        (schema({"$ref": "file:///etc/passwd"}), "does not fetch"),
    ],
    ids=lambda value: value.source if isinstance(value, Grammar) else "",
)
def test_a_grammar_that_no_reply_satisfies_is_refused_in_one_short_line(grammar: Grammar, said: str) -> None:
    for ignore_eos in (False, True):
        with pytest.raises(RequestError, match=said) as caught:
            grammars().check(grammar, ignore_eos)
        assert caught.value.param == "structured_outputs"
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


def test_two_escaped_backslashes_are_an_expression() -> None:
    assert allowed(begun(regex("\\\\"))) == {ord("\\")}


def test_a_tokenizer_without_special_tokens_serves_no_grammar() -> None:
    with pytest.raises(RequestError, match="no special token") as caught:
        grammars(special_ids=frozenset()).check(regex("a"), False)
    assert caught.value.param == "structured_outputs"


def test_a_token_that_was_not_allowed_is_an_error_of_the_engine() -> None:
    with pytest.raises(EngineError, match="grammar: token 98"):
        begun(regex("a")).take(ord("b"))


def test_a_reply_that_no_token_can_go_on_with_is_an_error_of_the_engine_and_no_end() -> None:
    for source in ("aé", "a\x04b"):  # no token for the bytes; an end token where the grammar may not end
        with pytest.raises(EngineError, match="grammar: token 97: no token of this model goes on with it"):
            begun(regex(source)).take(ord("a"))


def test_one_compiler_serves_threads_and_each_reply_has_its_own_state() -> None:
    compiler = grammars()
    got: dict[str, list[set[int]]] = {}

    def walk(word: str) -> None:
        constraint = compiler.begin(regex(word), False)
        states = []
        for character in word.encode():
            states.append(allowed(constraint))
            constraint.take(character)
        got[word] = [*states, allowed(constraint)]

    threads = [threading.Thread(target=walk, args=(word * 20,)) for word in ("ab", "cd", "ef", "gh")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {word * 20: [{code} for code in (word * 20).encode()] + [{END}] for word in ("ab", "cd", "ef", "gh")}
