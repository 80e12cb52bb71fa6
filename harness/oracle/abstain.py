"""Why a server with a drafter must decode a request plainly: each reason is a precondition of losslessness that does not hold.

Written from the rules alone. Neutral values ask for nothing: a penalty of 0, a repetition penalty of 1, an empty bias, a format
"text", logprobs null or false. Zero alternatives do ask: for the chosen token's logprob.
"""

from __future__ import annotations

from typing import Any

from harness.records.plan import Request


def abstains(request: Request, *, dumps_logits: bool = False) -> str | None:
    """Return the reason that must be named, of several the first; None for a request that must be speculated on.

    `dumps_logits`: the server was started to leave the rows that chose each token.
    """
    body = request.body or {}
    holds = {
        "sampled": not request.is_greedy,
        "grammar": _asks_for_a_grammar(body),
        "logprobs": body.get("logprobs") is not None and body["logprobs"] is not False,
        "dump-logits": dumps_logits,
        "penalties": _is_penalised(body),
        "logit-bias": bool(body.get("logit_bias")),
    }
    return next((reason for reason, is_so in holds.items() if is_so), None)


def asks_for(request: Request) -> tuple[str, ...]:
    """Return the capabilities that a request asks for beyond greedy text, as descriptions name them."""
    body = request.body or {}
    asked = {
        "stop": bool(body.get("stop")),
        "temperature": not request.is_greedy,
        "seed": body.get("seed") is not None,
        "logprobs": body.get("logprobs") is not None and body["logprobs"] is not False,
        "grammar": _asks_for_a_grammar(body),
        "penalties": _is_penalised(body),
        "logit_bias": bool(body.get("logit_bias")),
        "ignore_eos": bool(body.get("ignore_eos")),
        "stream": bool(body.get("stream")),
    }
    return tuple(name for name, is_so in asked.items() if is_so)


def _asks_for_a_grammar(body: dict[str, Any]) -> bool:
    response_format = body.get("response_format")
    is_formatted = isinstance(response_format, dict) and response_format.get("type") != "text"
    return is_formatted or body.get("structured_outputs") is not None


def _is_penalised(body: dict[str, Any]) -> bool:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1}
    return any(body.get(name) not in (None, value) for name, value in neutral.items())
