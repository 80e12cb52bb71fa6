"""Answers in the OpenAI dialect, as vLLM speaks it: bodies, stream chunks, usage and errors as JSON values. Sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forward_serve.errors import RequestError
from forward_serve.serving.deliver import Part
from forward_serve.serving.logprob_bodies import chat_logprobs, completion_logprobs
from forward_serve.serving.request import Endpoint, Request

NAMES: Mapping[Endpoint, tuple[str, str, str]] = {  # endpoint -> prefix of response ids, object of a body, object of a chunk
    Endpoint.COMPLETION: ("cmpl", "text_completion", "text_completion"),
    Endpoint.CHAT: ("chatcmpl", "chat.completion", "chat.completion.chunk"),
}
REQUEST_ERROR, SERVER_ERROR = "invalid_request_error", "server_error"  # whose fault an error is


@dataclass(frozen=True, slots=True)
class Said:
    """A part of a reply, or all of it, with how it ended where it did."""

    part: Part
    finish_reason: str | None = None
    stop_reason: str | int | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every message about one request repeats."""

    request: Request
    id: str
    created: int  # seconds since the epoch
    model: str

    def body(self, said: Said, usage: dict[str, Any]) -> dict[str, Any]:
        """Return the unstreamed answer."""
        content: dict[str, Any] = {"text": said.part.text}
        if self._is_chat:
            content = {"message": {"role": "assistant", "content": said.part.text}}
        return {
            **self._head(NAMES[self.request.endpoint][1]),
            **self._prompt_ids(in_choice=False),
            "choices": [self._choice(content, said) | self._prompt_ids(in_choice=True)],
            "usage": usage,
        }

    def opening(self) -> dict[str, Any] | None:
        """Return the chunk that opens a stream before its first text; None where the dialect has none."""
        if not self._is_chat:
            return None
        content = {"delta": {"role": "assistant", "content": ""}}
        return self._chunk(self._choice(content, Said(Part("", ())))) | self._prompt_ids(in_choice=False)

    def chunk(self, said: Said, *, is_first: bool) -> dict[str, Any]:
        """Return one chunk of a stream; a completion's first one carries the prompt ids."""
        text = said.part.text
        content: dict[str, Any] = {"text": text}
        if self._is_chat:
            content = {"delta": {"content": text} if text else {}}
        choice = self._choice(content, said)
        return self._chunk(choice | self._prompt_ids(in_choice=True) if is_first else choice)

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Return the chunk that closes a stream with its usage."""
        return {**self._chunk(), "usage": usage}

    @property
    def _is_chat(self) -> bool:
        return self.request.endpoint is Endpoint.CHAT

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, *choices: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(NAMES[self.request.endpoint][2]), "choices": list(choices)}

    def _choice(self, content: dict[str, Any], said: Said) -> dict[str, Any]:
        choice = {
            "index": 0,
            **content,
            "logprobs": self._logprobs(said.part),
            "finish_reason": said.finish_reason,
            "stop_reason": said.stop_reason,
        }
        if self.request.output.return_token_ids:
            choice["token_ids"] = list(said.part.ids)
        return choice

    def _logprobs(self, part: Part) -> dict[str, Any] | None:
        if part.logprobs is None:
            return None
        return chat_logprobs(part.logprobs) if self._is_chat else completion_logprobs(part.logprobs, part.offsets)

    def _prompt_ids(self, *, in_choice: bool) -> dict[str, Any]:
        """The prompt's ids, where asked: beside a completion's text, and at the top of a chat's answer."""
        if not self.request.output.return_token_ids or in_choice == self._is_chat:
            return {}
        return {"prompt_token_ids": list(self.request.prompt_ids)}


def usage_of(request: Request, num_tokens: int, num_cached: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the usage of one answer, with `spec` where it was asked for."""
    num_prompt = len(request.prompt_ids)
    usage: dict[str, Any] = {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_tokens,
        "total_tokens": num_prompt + num_tokens,
        "prompt_tokens_details": {"cached_tokens": num_cached},
    }
    return usage | {"spec": spec} if request.output.return_spec else usage


def error_body(message: str, kind: str, param: str = "") -> dict[str, Any]:
    """Return the body of an error; `param` "" where no field is at fault."""
    return {"error": {"message": message, "type": kind, "param": param or None}}


def refusal_body(error: RequestError) -> dict[str, Any]:
    """Return the body of a refused request."""
    return error_body(str(error), SERVER_ERROR if error.status >= 500 else REQUEST_ERROR, error.param)


def models_body(alias: str, created: int, context_length: int) -> dict[str, Any]:
    """Return the list of the one served model."""
    model = {
        "id": alias,
        "object": "model",
        "created": created,
        "owned_by": "forward-serve",
        "max_model_len": context_length,
    }
    return {"object": "list", "data": [model]}
