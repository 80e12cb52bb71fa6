"""One connection's requests: routes, headers, bodies and answers. Knows no field of a request and no model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from forward_serve.errors import RequestError
from forward_serve.serving.app import App
from forward_serve.serving.deliver import Part
from forward_serve.serving.dialect import REQUEST_ERROR, SERVER_ERROR, Envelope, Said, error_body, refusal_body, usage_of
from forward_serve.serving.hosts import header_names_loopback
from forward_serve.serving.log import described
from forward_serve.serving.outlet import ClientLeftError, ServerEndingError
from forward_serve.serving.request import Endpoint
from forward_serve.serving.speclog import Ending
from forward_serve.serving.stream import EventStream
from forward_serve.serving.wire import Wire, response_bytes

if TYPE_CHECKING:
    from forward_serve.serving.engine import Outcome

MAX_BODY_BYTES = 1 << 20
ROUTES: Mapping[str, str] = {  # path -> method
    "/health": "GET",
    "/v1/health": "GET",
    "/v1/models": "GET",
    Endpoint.COMPLETION.value: "POST",
    Endpoint.CHAT.value: "POST",
}


class Site(Protocol):
    """What a handler must know of its server."""

    app: App
    serves_any_host: bool  # whether Host headers that do not name this machine are served


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server: Site  # type: ignore[assignment]

    def setup(self) -> None:
        """Take the connection."""
        super().setup()
        self._wire = Wire(self.connection)
        self._has_unread_body = False

    def finish(self) -> None:
        """Let the client finish a body that was refused unread, so that it can read why."""
        if self._has_unread_body:
            self._wire.linger()
        super().finish()

    def serve(self) -> None:
        """Answer any request; its method is checked with its path."""
        try:
            raw = self._read_body()
        except RequestError as error:
            self._respond(error.status, refusal_body(error))
        except ConnectionError:
            self.close_connection = True
        else:
            with self.server.app.answering():
                self._answer(raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = serve  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a request that could not be parsed; called by the library."""
        self.close_connection = True
        self._respond(code, error_body(f"request: {message or 'not HTTP'}; send HTTP/1.1", REQUEST_ERROR))

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing: a request has its `[spec]` line."""

    def _answer(self, raw: bytes) -> None:
        try:
            self._route(raw)
        except RequestError as error:
            self._respond(error.status, refusal_body(error))
        except OSError:  # the client does not take its answer
            self.close_connection = True
        except Exception as error:  # a fault of this server: named to its owner and to the client, and it lives on
            self.server.app.log(f"[error] {self.command} {self.path} {described(error)}")
            self._respond(500, error_body(f"the server failed: {type(error).__name__}: {error}", SERVER_ERROR))

    def _route(self, raw: bytes) -> None:
        self._check_host()
        path = urlsplit(self.path).path
        method = ROUTES.get(path)
        if method is None:
            raise RequestError(f"path: {path} is not served; use one of {', '.join(ROUTES)}", status=404)
        if method != self.command:
            message = f"method: {self.command} {path} is not served; use {method}"
            self._respond(405, error_body(message, REQUEST_ERROR), {"Allow": method})
        elif method == "POST":
            self._generate(self.server.app.prepare(Endpoint(path), raw))
        elif path == "/v1/models":
            self._respond(200, self.server.app.models())
        else:
            self._respond_health()

    def _respond_health(self) -> None:
        app = self.server.app
        if app.is_ready:
            self._respond(200, {"status": "ok"})
        else:
            self._respond(503, {"status": "ending" if app.is_ending() else "loading"})

    def _read_body(self) -> bytes:
        """Read the body whole. Raises RequestError for one of unknown or too large a size; ConnectionError for half a body."""
        length = self.headers.get("Content-Length", "0" if self.command != "POST" else None)
        if self.headers.get("Transfer-Encoding") is not None or length is None:
            self._leave_body_unread()
            raise RequestError("Content-Length: missing; send the body whole, with its length", status=411)
        if not re.fullmatch(r"[0-9]{1,18}", length) or len(self.headers.get_all("Content-Length", [])) > 1:
            self._leave_body_unread()
            raise RequestError(f"Content-Length: {length!r} is not one number of bytes; correct it")
        num_bytes = int(length)
        if num_bytes > MAX_BODY_BYTES:
            self._leave_body_unread()
            raise RequestError(f"body: {num_bytes} bytes are over the limit of {MAX_BODY_BYTES}; send less", status=413)
        raw = self.rfile.read(num_bytes)
        if len(raw) < num_bytes:
            raise ConnectionError("the client closed inside its body")
        return raw

    def _leave_body_unread(self) -> None:
        self._has_unread_body = True
        self.close_connection = True

    def _check_host(self) -> None:
        """Refuse names of other machines: a page in a browser reaches this server by pointing its own name here."""
        host = self.headers.get("Host", "")
        if not self.server.serves_any_host and not header_names_loopback(host):
            message = f"Host: {host!r} does not name this machine; use localhost, or start the server with --host"
            raise RequestError(message, status=403)

    def _generate(self, envelope: Envelope) -> None:
        stream = None
        if envelope.request.output.stream:
            is_chunked = self.request_version != "HTTP/1.0"
            self.close_connection |= not is_chunked
            stream = EventStream(envelope, self._wire.send, is_chunked=is_chunked)
        try:
            outcome = self.server.app.engine.answer(envelope.request, envelope.id, _Listener(self._wire, stream))
        except ClientLeftError:
            self.close_connection = True
        except ServerEndingError as error:
            self.close_connection = True
            raise RequestError(str(error), status=503) from None
        else:
            self._conclude(envelope, outcome, stream)

    def _conclude(self, envelope: Envelope, outcome: Outcome, stream: EventStream | None) -> None:
        """Send what the engine left to send: the whole answer, or the end of a stream."""
        if outcome.ending is Ending.CANCELLED:
            self.close_connection = True
            return
        if outcome.failure:
            self._fail(outcome.failure, stream)
            return
        deliver, record = outcome.deliver, outcome.record
        usage = usage_of(envelope.request, deliver.num_tokens, record.cached, record.usage())
        if stream is None:
            said = Said(deliver.whole(), deliver.finish_reason, deliver.stop_reason)
            self._respond(200, envelope.body(said, usage))
        else:
            said = Said(deliver.take(), deliver.finish_reason, deliver.stop_reason)
            output = envelope.request.output
            stream.close(said, usage if output.include_usage or output.return_spec else None)

    def _fail(self, failure: str, stream: EventStream | None) -> None:
        if stream is not None and stream.has_begun:
            stream.break_off(failure)
        else:
            self._respond(500, error_body(failure, SERVER_ERROR))

    def _respond(self, status: int, value: Any, more: dict[str, str] | None = None) -> None:
        response = response_bytes(status, value, closes=self.close_connection, more=more)
        if self.command == "HEAD":
            response = response[: response.index(b"\r\n\r\n") + 4]
        try:
            self._wire.send(response)
        except OSError:
            self.close_connection = True


class _Listener:
    """The client of one request, as the engine sees it."""

    def __init__(self, wire: Wire, stream: EventStream | None) -> None:
        self._stream = stream
        self.has_left = wire.has_left

    def hear(self, part: Part) -> None:
        """Pass on to a stream; an unstreamed answer is sent whole."""
        if self._stream is not None:
            self._stream.hear(part)
