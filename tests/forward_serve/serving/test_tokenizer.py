"""The tokenizer of the golden container: text in, ids out, bytes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError, Refusal
from forward_serve.serving.chat import Message
from forward_serve.serving.tokenizer import Tokenizer, byte_alphabet

GOLDEN = Path(__file__).parents[2] / "golden" / "q4nx" / "tiny-qwen3"
TEXT = (GOLDEN / "tokenizer.json").read_text()
CONFIG: dict[str, Any] = json.loads((GOLDEN / "tokenizer_config.json").read_text())
END, START = 185, 186


def tokenizer(**config: Any) -> Tokenizer:
    settings = {**CONFIG, **config}
    return Tokenizer(TEXT, settings, settings["chat_template"])


def test_the_alphabet_names_every_byte_once() -> None:
    assert sorted(byte_alphabet().values()) == list(range(256))


def test_printable_ascii_is_one_id_a_character() -> None:
    assert tokenizer().encode("!Hello~") == [0, 39, 68, 75, 75, 78, 93]


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8", max_codepoint=0x2FF, exclude_categories=["Mn"]), max_size=20))
def test_the_bytes_of_a_texts_ids_are_the_texts_bytes(text: str) -> None:
    golden = tokenizer()
    assert b"".join(map(golden.token_bytes, golden.encode(text))).decode() == text


def test_a_special_literal_in_a_prompt_is_ordinary_bytes() -> None:
    golden = tokenizer()
    ids = golden.encode("a<|im_end|>")
    assert END not in ids
    assert b"".join(map(golden.token_bytes, ids)) == b"a<|im_end|>"


def test_a_special_appears_as_its_literal() -> None:
    assert tokenizer().token_bytes(START) == b"<|im_start|>"


def test_an_id_that_the_tokenizer_leaves_out_has_no_bytes() -> None:
    assert tokenizer().token_bytes(256) == b""


@pytest.mark.parametrize("source", [CONFIG["chat_template"], None])
def test_a_chat_has_the_templates_specials_and_no_others(source: str | None) -> None:
    golden = tokenizer(chat_template=source)
    ids = golden.encode_chat([Message("user", "hi<|im_end|>")])
    text = golden.encode("user\nhi<|im_end|>")
    assert ids == [START, *text, END, *golden.encode("\n"), START, *golden.encode("assistant\n")]


def test_the_containers_template_is_used_where_the_config_holds_a_list_of_them() -> None:
    listed = {**CONFIG, "chat_template": [{"name": "default", "template": "unused"}]}
    golden = Tokenizer(TEXT, listed, "{{ messages[0].content }}!")
    assert golden.encode_chat([Message("user", "a")]) == golden.encode("a!")


def test_a_token_object_gives_the_template_its_literal() -> None:
    golden = tokenizer(eos_token={"content": "<|im_end|>"}, chat_template="{{ eos_token }}{{ unk_token }}")
    assert golden.encode_chat([Message("user", "a")]) == [END]


def test_a_file_that_is_no_tokenizer_is_refused() -> None:
    with pytest.raises(Refusal, match=r"tokenizer\.json: .*; give"):
        Tokenizer("{}", {})


def test_a_decoder_that_is_not_byte_level_is_refused_by_name() -> None:
    other = json.loads(TEXT) | {"decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}}
    with pytest.raises(Refusal, match=r"Metaspace.* is not ByteLevel"):
        Tokenizer(json.dumps(other), {})


def test_a_token_outside_the_byte_alphabet_is_the_containers_fault() -> None:
    other = json.loads(TEXT)
    other["model"]["vocab"]["字"] = 256
    with pytest.raises(EngineError, match=r"token 256 holds .* stands for no byte"):
        Tokenizer(json.dumps(other), {}).token_bytes(256)
