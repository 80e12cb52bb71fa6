"""A base without weights, an audience and a tokenizer for the tests of the serving room: ids are ASCII codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence

from forward_serve.decoding.interfaces import Head, Rows
from forward_serve.decoding.lookup import PromptLookupHead
from forward_serve.decoding.scripted import ScriptedBase
from forward_serve.serving.app import App
from forward_serve.serving.chat import Message
from forward_serve.serving.constraint import Grammars
from forward_serve.serving.deliver import Part
from forward_serve.serving.engine import Engine, Served
from forward_serve.serving.fields import ModelFacts
from forward_serve.serving.request import Endpoint, Request, SamplingParams
from forward_serve.serving.tokenizer import byte_alphabet
from forward_serve.taps import TapSink

VOCAB = 128
CONTEXT = 64
END = 4  # the end token, an ordinary one in the vocabulary
SPECIAL = 127  # the only special token
GREEDY = SamplingParams(temperature=0)


def no_hook(_num_passes: int) -> None:
    """Do nothing before a pass."""


class ToyBase(ScriptedBase):
    """Says `reply` in a circle, whatever the prompt."""

    def __init__(self, reply: str = "abcab", before_pass: Callable[[int], None] = no_hook) -> None:
        super().__init__(self._next, VOCAB)
        self._reply = [ord(character) for character in reply]
        self._before_pass = before_pass  # called with the number of the pass, from 1 on
        self.tap_sink: TapSink | None = None
        self._num_passes = 0
        self._num_prompt = 0

    def reset(self) -> None:
        self.truncate(0)
        if self.tap_sink is not None:
            self.tap_sink.clear()

    def prefill(self, ids: Sequence[int]) -> Rows:
        self._num_prompt = len(self.stream) + len(ids)
        for first in range(0, len(ids), self.width):
            rows = self.forward(ids[first : first + self.width])
        last: Rows = rows[-1].copy()
        return last

    def forward(self, ids: Sequence[int]) -> Rows:
        self._num_passes += 1
        self._before_pass(self._num_passes)
        return super().forward(ids)

    def _next(self, stream: Sequence[int]) -> int:
        return self._reply[(len(stream) - self._num_prompt) % len(self._reply)]


class Listener:
    """A client: remembers what it heard, leaves when told."""

    def __init__(self) -> None:
        self.text = ""
        self.ids: list[int] = []
        self.is_gone = False

    def has_left(self) -> bool:
        return self.is_gone

    def hear(self, part: Part) -> None:
        self.text += part.text
        self.ids += part.ids


def served(base: ToyBase | None = None, head: Head | None = None, k: int = 4, **more: object) -> Served:
    return Served(
        base=base or ToyBase(),
        head=head,
        token_bytes=lambda token: bytes([token]),
        end_tokens=frozenset({END}),
        grammars=grammars(),
        k=k,
        **more,  # type: ignore[arg-type]
    )


def facts() -> ModelFacts:
    return ModelFacts(
        alias="toy",
        vocab_bound=VOCAB,
        context_length=CONTEXT,
        encode=lambda text: list(text.encode()),
        encode_chat=encode_chat,
        check_grammar=grammars().check,
    )


def grammars(special_ids: frozenset[int] = frozenset({SPECIAL})) -> Grammars:
    return Grammars(tokenizer_json(), special_ids, VOCAB, frozenset({END}))


def tokenizer_json() -> str:
    """A byte-level tokenizer without merges: each ASCII character is the id of its code, the last id is special."""
    characters = {code: character for character, code in byte_alphabet().items()}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    special = {"id": SPECIAL, "content": "<|special|>", "special": True}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [special | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)],
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "vocab": {characters[code]: code for code in range(SPECIAL)} | {special["content"]: SPECIAL},
                "merges": [],
            },
        }
    )


def encode_chat(messages: Sequence[Message]) -> list[int]:
    return [byte for message in messages for byte in f"{message.role}:{message.content}\n".encode()]


def request(prompt: str = "xyz", max_tokens: int = 8, **more: object) -> Request:
    fields = {"sampling": GREEDY, **more}
    return Request(Endpoint.COMPLETION, tuple(prompt.encode()), max_tokens, **fields)  # type: ignore[arg-type]


class Log:
    """Collects log lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


def lookup() -> PromptLookupHead:
    return PromptLookupHead()


def engine(model: Served, log: Log | None = None, ending: threading.Event | None = None) -> Engine:
    return Engine(model, log or Log(), (ending or threading.Event()).is_set)


def app(model: Served, log: Log | None = None) -> App:
    """An app that is ready."""
    log = log or Log()
    ready = App(log, clock=lambda: 7.0)
    ready.serve(Engine(model, log, ready.is_ending), facts())
    return ready
