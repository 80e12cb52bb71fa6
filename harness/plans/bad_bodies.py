"""Bodies that must be refused by name: every field wrong in type, in range and beside others, and texts that are no body at all.

A row gives what is wrong and the field that the answer must name; "" = the body as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = tuple[str, Any]  # a field and a value that it must not have
Beside = tuple[str, dict[str, Any]]  # the field to name, and fields that do not go together

# The first few are one of each kind of rule.
FEW: tuple[Row, ...] = (("max_tokens", 0), ("stop", ""), ("no_such_field", 1))
ROWS: tuple[Row, ...] = (
    *FEW,
    ("max_tokens", "five"),
    ("max_tokens", 2.5),
    ("prompt", ""),
    ("prompt", []),
    ("prompt", 5),
    ("prompt", [1, -1]),
    ("prompt", [1, 256]),  # the first id that the tokenizer does not have: the model has a row for it
    ("prompt", [1, 100_000]),
    ("prompt", ["a"]),
    ("temperature", "hot"),
    ("temperature", -0.5),
    ("top_p", 0),
    ("top_p", 1.5),
    ("top_k", 1.5),
    ("seed", "x"),
    ("stop", [""]),
    ("stop", ["a", ""]),
    ("stop", 5),
    ("stop", [5]),
    ("stop", list("abcdefghi")),  # nine
    ("stream", "yes"),
    ("ignore_eos", "no"),
    ("return_token_ids", 1),
    ("logprobs", -1),
    ("logprobs", 21),
    ("presence_penalty", 2.5),
    ("frequency_penalty", -2.5),
    ("repetition_penalty", 0),
    ("logit_bias", {"256": 1}),
    ("logit_bias", {"5": 101}),
    ("logit_bias", {"x": 1}),
    ("response_format", {"type": "xml"}),
    ("response_format", {"type": "json_schema"}),
    ("structured_outputs", {"regex": "("}),
    ("structured_outputs", {"regex": "a", "json": {}}),
    ("structured_outputs", {"json": {"type": "no-such-type"}}),
    ("structured_outputs", {"json": {"enum": []}}),  # no reply satisfies it
    ("n", 2),
    ("best_of", 2),
    ("echo", True),
    ("suffix", "x"),
    ("tools", [{"type": "function"}]),
)
MORE: tuple[Row, ...] = (
    ("max_tokens", -1),
    ("prompt", [1, 287]),  # the last row of the model
    ("prompt", [1, 2.5]),
    ("prompt", [1, 2**64]),
    ("prompt", [True]),
    ("prompt", [[1, 2]]),
    ("top_p", -1),
    ("top_k", -2),
    ("seed", 2**63),
    ("stop", [["a"]]),
    ("logit_bias", {"-1": 1}),
    ("logit_bias", {"1.0": 1}),
    ("logit_bias", {"5": None}),
    ("logit_bias", {"5": "x"}),
    ("logit_bias", {"5": -101}),
    ("repetition_penalty", -1),
    ("presence_penalty", -2.5),
    ("frequency_penalty", 2.5),
    ("response_format", {}),
    ("response_format", {"type": "text", "schema": {}}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "x"}}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}),
    ("structured_outputs", {"regex": 5}),
    ("structured_outputs", {"json": 5}),
    ("structured_outputs", {"json": "{"}),
    ("structured_outputs", {"choice": ["a"]}),
    ("Max_tokens", 5),
    ("messages", [{"role": "user", "content": "a"}]),
    ("top_logprobs", 2),
    ("", 1),
)
COMBINATIONS: tuple[Beside, ...] = (
    ("structured_outputs", {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}),
    ("max_completion_tokens", {"max_tokens": 4, "max_completion_tokens": 5}),
    ("stream_options", {"stream_options": {"include_usage": True}}),  # of a request that is not streamed
)
CHATS: tuple[Beside, ...] = (
    ("messages", {"messages": []}),
    ("messages", {"messages": [{"role": "nobody", "content": "a"}]}),
    ("prompt", {"prompt": "a"}),
    ("logprobs", {"logprobs": 5}),
    ("top_logprobs", {"top_logprobs": 2}),  # without logprobs
)
MORE_CHATS: tuple[Beside, ...] = (
    ("messages", {"messages": None}),
    ("messages", {"messages": "a"}),
    ("messages", {"messages": [{"role": "user"}]}),
    ("messages", {"messages": [{"role": "user", "content": 5}]}),
    ("messages", {"messages": [{"content": "a"}]}),
    ("messages", {"messages": ["a"]}),
    ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
)
FEW_TEXTS: tuple[tuple[str, str], ...] = (("{", ""),)
TEXTS: tuple[tuple[str, str], ...] = (
    *FEW_TEXTS,
    ("", ""),
    ("[]", ""),
    ("null", ""),
    ('"text"', ""),
    ('{"prompt": "a"', ""),
    ('{"prompt": "a", "max_tokens": NaN}', ""),
    ("\xff\xfe{}", ""),
    ('{"prompt": "a", "prompt": "b"}', "prompt"),
    ('{"prompt": "\\ud800"}', "prompt"),
    ('{"prompt": "a", "temperature": 1e999}', "temperature"),
    ("[" * 100_000, ""),
)

# Of each field, the JSON types that it may have; any other is wrong. The order of WRONG decides which value of a type is given.
WRONG: dict[str, Any] = {"string": "x", "number": 1.5, "whole": 7, "boolean": True, "array": [5], "object": {"x": 5}}
TYPES: dict[str, frozenset[str]] = {
    "prompt": frozenset({"string", "array"}),
    "max_tokens": frozenset({"whole"}),
    "max_completion_tokens": frozenset({"whole"}),
    "temperature": frozenset({"number", "whole"}),
    "top_p": frozenset({"number", "whole"}),
    "top_k": frozenset({"whole"}),
    "seed": frozenset({"whole"}),
    "stop": frozenset({"string", "array"}),
    "stream": frozenset({"boolean"}),
    "stream_options": frozenset({"object"}),
    "logprobs": frozenset({"whole"}),
    "ignore_eos": frozenset({"boolean"}),
    "response_format": frozenset({"object"}),
    "structured_outputs": frozenset({"object"}),
    "presence_penalty": frozenset({"number", "whole"}),
    "frequency_penalty": frozenset({"number", "whole"}),
    "repetition_penalty": frozenset({"number", "whole"}),
    "logit_bias": frozenset({"object"}),
    "return_token_ids": frozenset({"boolean"}),
    "return_spec": frozenset({"boolean"}),
    "user": frozenset({"string"}),
    "metadata": frozenset({"object"}),
    "n": frozenset(),
    "best_of": frozenset(),
    "echo": frozenset(),
    "suffix": frozenset(),
    "tools": frozenset(),
}


def of_wrong_type() -> Iterator[Row]:
    """Yield every field with a value of every JSON type that it may not have."""
    for field, types in TYPES.items():
        yield from ((field, value) for kind, value in WRONG.items() if kind not in types)
