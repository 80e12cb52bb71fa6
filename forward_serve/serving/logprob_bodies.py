"""Logprobs as the two endpoints write them. Knows no logits.

A token is written as its text, one that is no whole text by its bytes (`bytes:\\xe2\\x82`). Of two alternatives of one row
with the same text the lesser is written by its id (`token_id:7`): a map would lose one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forward_serve.serving.logprobs import Scored, TokenLogprobs  # brings numpy, which nothing here needs

LOWEST = -9999.0  # stands for minus infinity, which JSON does not know


def completion_logprobs(tokens: Sequence[TokenLogprobs], offsets: Sequence[int]) -> dict[str, Any]:
    """Return a completion's lists, one entry a token; `offsets` are the characters of the reply in front of each.

    A token's alternatives are the best of its row, and the token itself behind them where it is none of these.
    """
    return {
        "tokens": [token_text(entry.chosen.data) for entry in tokens],
        "token_logprobs": [written(entry.chosen) for entry in tokens],
        "top_logprobs": [_alternatives(entry) for entry in tokens],
        "text_offset": list(offsets),
    }


def chat_logprobs(tokens: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """Return a chat's list, one entry a token, with the best of its row."""
    content = [{**_chat_entry(entry.chosen), "top_logprobs": [_chat_entry(best) for best in entry.best]} for entry in tokens]
    return {"content": content}


def _alternatives(entry: TokenLogprobs) -> dict[str, float]:
    alternatives: dict[str, float] = {}
    for scored in (*entry.best, *(() if entry.chosen in entry.best else (entry.chosen,))):
        name = token_text(scored.data)
        alternatives[name if name not in alternatives else f"token_id:{scored.token}"] = written(scored)
    return alternatives


def _chat_entry(scored: Scored) -> dict[str, Any]:
    return {"token": token_text(scored.data), "logprob": written(scored), "bytes": list(scored.data)}


def written(scored: Scored) -> float:
    """The logprob as a JSON number."""
    return max(scored.logprob, LOWEST)


def token_text(data: bytes) -> str:
    """Write a token as text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
