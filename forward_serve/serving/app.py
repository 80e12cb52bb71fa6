"""The application behind the handler: loading, ready or ending; who asks what, and with which id. Knows no socket."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from forward_serve.errors import RequestError
from forward_serve.serving.body import read_object
from forward_serve.serving.dialect import NAMES, Envelope, models_body
from forward_serve.serving.fields import ModelFacts, parse_request
from forward_serve.serving.request import Endpoint

if TYPE_CHECKING:
    from forward_serve.serving.engine import Engine  # brings numpy, which a server that is still loading does without


class App:
    """One server's state, shared by its connections."""

    def __init__(self, log: Callable[[str], None], clock: Callable[[], float] = time.time) -> None:
        self.log = log
        self._clock = clock
        self._ending = threading.Event()
        self._ready: tuple[Engine, ModelFacts, int] | None = None
        self._numbers = itertools.count(1)
        self._num_answering = 0
        self._changed = threading.Condition()

    def serve(self, engine: Engine, facts: ModelFacts) -> None:
        """Become ready."""
        self._ready = (engine, facts, int(self._clock()))

    @property
    def is_ready(self) -> bool:
        """Whether requests are served: loaded, and not told to end."""
        return self._ready is not None and not self._ending.is_set()

    def is_ending(self) -> bool:
        """Whether the server was told to end."""
        return self._ending.is_set()

    @property
    def engine(self) -> Engine:
        """The engine. Raises RequestError 503 while there is none."""
        return self._loaded()[0]

    def models(self) -> dict[str, object]:
        """Return the body of /v1/models. Raises RequestError 503 while loading."""
        _, facts, created = self._loaded()
        return models_body(facts.alias, created, facts.context_length)

    def prepare(self, endpoint: Endpoint, raw: bytes) -> Envelope:
        """Read and check a request body and give it a response id. Raises RequestError, which changes nothing."""
        _, facts, _ = self._loaded()
        request = parse_request(read_object(raw), endpoint, facts)
        response_id = f"{NAMES[endpoint][0]}-{next(self._numbers)}"
        return Envelope(request, response_id, int(self._clock()), facts.alias)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is being answered."""
        with self._changed:
            self._num_answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_answering -= 1
                self._changed.notify_all()

    def end(self, patience_s: float) -> None:
        """Tell running and waiting requests to end, and wait for their answers up to `patience_s`."""
        self._ending.set()
        with self._changed:
            self._changed.wait_for(lambda: self._num_answering == 0, patience_s)

    def _loaded(self) -> tuple[Engine, ModelFacts, int]:
        if self._ready is None or self._ending.is_set():
            state = "ending" if self._ending.is_set() else "loading its model"
            raise RequestError(f"the server is {state}; ask again when /health answers 200", status=503)
        return self._ready
