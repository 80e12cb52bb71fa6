"""Chat messages, and how a container's chat template makes one prompt of them. Knows no token ids.

A message's text is text: a special token's literal inside it is marked before the template runs and comes out as ordinary
text, so that no message can end a turn or open another. What the template itself writes keeps its meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from forward_serve.errors import EngineError, RequestError
from forward_serve.serving.body import Fields, listing, mapping, param_of, refuse, text

ROLES = ("system", "user", "assistant")
FENCE, COUNTER = "\ufdd0", "\ufdd1"  # Unicode noncharacters: never assigned, so templates leave them alone
NEVER = r"(?!)"  # a pattern that matches nothing

# For a container without a template of its own.
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered prompt: a special token's literal, or text in which there are no special tokens."""

    text: str
    is_special: bool


def read_messages(name: str, value: Any) -> tuple[Message, ...]:
    """Read the `messages` field. Raises RequestError naming message and field."""
    messages = listing(name, value)
    if not messages:
        refuse(name, value, "a list of at least one message")
    return tuple(_message(f"{name}[{index}]", message) for index, message in enumerate(messages))


def _message(name: str, value: Any) -> Message:
    fields = Fields(mapping(name, value), name)
    role = fields.take("role", text)
    content = fields.take("content", _content)
    fields.refuse_unknown()
    if role not in ROLES:
        refuse(fields.path("role"), role, f"one of {', '.join(ROLES)}", "use one of them")
    if content is None:
        raise RequestError(f"{name}.content: missing; every message has one", param_of(name))
    return Message(role, content)


def _content(name: str, value: Any) -> str:
    """Read a string, or a list of text parts, which are joined by newlines as in the dialect."""
    if isinstance(value, str):
        return text(name, value)
    parts = []
    for index, part in enumerate(listing(name, value)):
        fields = Fields(mapping(f"{name}[{index}]", part), f"{name}[{index}]")
        kind = fields.take("type", text)
        if kind != "text":
            refuse(fields.path("type"), kind, "served: messages hold text alone")
        parts.append(fields.get("text", text, ""))
        fields.refuse_unknown()
    return "\n".join(parts)


class ChatTemplate:
    """A compiled chat template. The template language is imported here, at the first chat.

    `specials` are the literals of the special tokens, `variables` what the template may read beside the messages. Raises
    EngineError for a template that does not compile.
    """

    def __init__(self, source: str, specials: Sequence[str], variables: Mapping[str, Any]) -> None:
        self._specials = tuple(sorted(specials, key=len, reverse=True))
        self._any_special = re.compile("|".join(map(re.escape, self._specials)) or NEVER)
        self._template = compile_template(source)
        self._variables = dict(variables)

    def pieces(self, messages: Sequence[Message]) -> list[Piece]:
        """Render the messages and an open assistant turn. Raises RequestError where the template refuses them."""
        marks = _Marks(self._specials, self._any_special, [message.content for message in messages])
        turns = [{"role": message.role, "content": marks.hide(message.content)} for message in messages]
        rendered = self._template(**self._variables, messages=turns, add_generation_prompt=True)
        pieces = []
        start = 0
        for special in self._any_special.finditer(rendered):
            pieces += [Piece(marks.reveal(rendered[start : special.start()]), False), Piece(special[0], True)]
            start = special.end()
        pieces.append(Piece(marks.reveal(rendered[start:]), False))
        return [piece for piece in pieces if piece.text]


class _Marks:
    """Stand-ins for the special literals in messages: a fence longer than any run of its character, around a count."""

    def __init__(self, specials: Sequence[str], any_special: re.Pattern[str], contents: Sequence[str]) -> None:
        longest = max((len(run) for content in contents for run in re.findall(f"{FENCE}+", content)), default=0)
        self._fence = FENCE * (longest + 1)
        self._specials = specials
        self._any_special = any_special

    def hide(self, content: str) -> str:
        """Replace every special literal."""
        return self._any_special.sub(
            lambda found: f"{self._fence}{COUNTER * (self._specials.index(found[0]) + 1)}{self._fence}", content
        )

    def reveal(self, rendered: str) -> str:
        """Put the literals back, as text."""
        hidden = re.compile(f"{self._fence}({COUNTER}+){self._fence}")
        return hidden.sub(lambda found: self._specials[len(found[1]) - 1], rendered)


def compile_template(source: str) -> Callable[..., str]:
    """Compile a template in a sandbox, with what published templates expect to find. Returns its render function."""
    from jinja2 import TemplateError  # noqa: PLC0415  (50 ms that a server without chats never pays)
    from jinja2.ext import loopcontrols  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise EngineError(f"tokenizer_config.json: chat_template does not compile ({error}); correct it") from error

    def render(**variables: Any) -> str:
        try:
            return template.render(**variables)
        except TemplateError as error:
            raise RequestError(f"messages: the chat template refuses them ({error}); change them", "messages") from error

    return render
