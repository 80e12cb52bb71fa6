"""OpenAI's completions over HTTP, for runners that serve a library: bodies in, answers and refusals out. Knows no library and no model.

It imports nothing of the harness.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

PATH = "/v1/completions"
FIELDS = {
    "prompt": (str, list),
    "max_tokens": (int,),
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
    "seed": (int,),
    "stop": (str, list),
    "ignore_eos": (bool,),
    "logprobs": (int,),
    "return_token_ids": (bool,),
}
NEUTRAL: Mapping[
    str, tuple[Any, ...]
] = {  # what OpenAI's dialect has words for and `generate` other rules: taken where it asks for nothing
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "logprobs": (False,),
}


class BadRequestError(ValueError):
    """A body that cannot be served; the text says why."""


def checked(body: Any) -> dict[str, Any]:
    """Return a body whose fields are known and of their types, without what asks for nothing. Raises BadRequestError."""
    if not isinstance(body, dict):
        raise BadRequestError("body: is no object; send one")
    asked = {name: value for name, value in body.items() if not _asks_for_nothing(name, value)}
    for name, value in asked.items():
        kinds = FIELDS.get(name)
        if kinds is None:
            raise BadRequestError(f"{name}: unknown field; leave it out")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise BadRequestError(f"{name}: {value!r} is none of {', '.join(kind.__name__ for kind in kinds)}; send one")
    prompt, budget = asked.get("prompt"), asked.setdefault("max_tokens", 16)
    if not prompt or (isinstance(prompt, list) and not all(type(one) is int and one >= 0 for one in prompt)):
        raise BadRequestError(f"prompt: {prompt!r} is neither text nor token ids; send one")
    if budget < 1:
        raise BadRequestError(f"max_tokens: {budget} is below 1; ask for one token or more")
    if isinstance(asked.get("stop"), str):
        asked["stop"] = [asked["stop"]]
    return asked


def _asks_for_nothing(name: str, value: Any) -> bool:
    return value is None or any(
        value == one and isinstance(value, bool) == isinstance(one, bool) for one in NEUTRAL.get(name, ())
    )


Answer = Callable[[Any, str], dict[str, Any]]  # body, id of the response -> answer; raises BadRequestError


def handler_for(answer: Answer) -> type[BaseHTTPRequestHandler]:
    """Return a handler of one connection's requests; replies are made one at a time."""
    turn, numbers = threading.Lock(), iter(range(1, sys.maxsize))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for each answer

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def do_GET(self) -> None:
            self._send(200 if self.path == "/health" else 404, {"status": "ok" if self.path == "/health" else "not found"})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path != PATH:
                self._send(404, _error(f"{self.path}: no such path; use {PATH}"))
                return
            try:
                body = checked(json.loads(content))
                with turn:
                    self._send(200, answer(body, f"cmpl-{next(numbers)}"))
            except ValueError as error:  # of JSON, of a body, and of what transformers refuses
                self._send(400, _error(str(error)))

        def _send(self, status: int, value: Any) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Write no line for each request."""

    return Handler


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None}}
