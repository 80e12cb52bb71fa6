"""Text to ids and ids to bytes, through the container's own tokenizer. Knows no reply and no stream.

Text from outside is text: the literal of a special token inside a prompt or a message is encoded as ordinary bytes. No
token is added to a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer as Library

from forward_serve.errors import EngineError, Refusal
from forward_serve.serving.chat import CHATML, ChatTemplate, Message


class Tokenizer:
    """A byte-level BPE tokenizer.

    `tokenizer_json` is the text of tokenizer.json, `config` the object of tokenizer_config.json, `chat_template` the
    container's (None: ChatML). Raises Refusal for a tokenizer that the library cannot read or whose ids are not byte strings.
    """

    def __init__(self, tokenizer_json: str, config: Mapping[str, Any], chat_template: str | None = None) -> None:
        self._library = _read(tokenizer_json)
        self._library.encode_special_tokens = True
        self._config = config
        self._template_source = chat_template or CHATML
        self._added = {id_: token.content for id_, token in self._library.get_added_tokens_decoder().items()}
        self._specials = {token.content: id_ for id_, token in self._library.get_added_tokens_decoder().items() if token.special}
        self._bytes_of_character = byte_alphabet()
        self.token_bytes: Callable[[int], bytes] = cache(self._token_bytes)
        self._chat_template: Callable[[], ChatTemplate] = cache(self._compile_chat_template)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens."""
        return frozenset(self._specials.values())

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text in which nothing is special."""
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a chat and the open turn of its answer. Raises RequestError where the template refuses it."""
        ids: list[int] = []
        for piece in self._chat_template().pieces(messages):
            ids += [self._specials[piece.text]] if piece.is_special else self.encode(piece.text)
        return ids

    def _token_bytes(self, token: int) -> bytes:
        """Return the bytes of an id: those of an added token's literal, none of an id that the tokenizer leaves out."""
        if token in self._added:
            return self._added[token].encode()
        characters = self._library.id_to_token(token) or ""
        try:
            return bytes(self._bytes_of_character[character] for character in characters)
        except KeyError as error:
            raise EngineError(f"tokenizer.json: token {token} holds {error}, which stands for no byte; correct it") from None

    def _compile_chat_template(self) -> ChatTemplate:
        variables = {name: _literal(self._config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
        return ChatTemplate(self._template_source, list(self._specials), variables)


def _read(tokenizer_json: str) -> Library:
    try:
        library = Library.from_str(tokenizer_json)
    except Exception as error:  # the library raises bare Exception
        raise Refusal(f"tokenizer.json: {error}; give a file that the tokenizers library reads") from error
    if "ByteLevel" not in repr(library.decoder):
        raise Refusal(f"tokenizer.json: decoder {library.decoder!r} is not ByteLevel; only byte-level tokenizers are served")
    return library


def _literal(token: Any) -> str:
    """A special token of tokenizer_config.json as text: it is given as a string, as an object, or as null."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for (GPT-2's alphabet).

    Printable Latin-1 characters stand for themselves, the 68 other bytes in order for the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + index): byte for index, byte in enumerate(others)}
