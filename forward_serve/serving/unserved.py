"""Fields that are read and understood but that this server does not serve: refused by name, never ignored."""

from __future__ import annotations

from forward_serve.errors import RequestError
from forward_serve.serving.request import Request


def refuse_unserved(request: Request) -> None:
    """Raise RequestError for the first field that asks for what this server cannot do; neutral values ask for nothing."""
    neutral = request.penalties.__class__()
    asked = {
        request.grammar.field if request.grammar else "response_format": request.grammar is not None,
        "logprobs": request.num_logprobs is not None,
        "presence_penalty": request.penalties.presence != neutral.presence,
        "frequency_penalty": request.penalties.frequency != neutral.frequency,
        "repetition_penalty": request.penalties.repetition != neutral.repetition,
        "logit_bias": bool(request.logit_bias),
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise RequestError(f"{name}: not supported yet by this server; leave it out", name)
