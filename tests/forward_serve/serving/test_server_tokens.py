"""The server on tokens that are no whole characters, on logprobs, grammars and caches: bodies and streams say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forward_serve.decoding.interfaces import Head
from forward_serve.serving.request import Endpoint
from tests.forward_serve.serving.test_server import CHATS, COMPLETIONS, GREEDY, Running, events_of, http_post, serving
from tests.forward_serve.serving.toy import VOCAB, Log, ToyBase, app, lookup, served

# What the ids of a toy's reply stand for here: whole characters, parts of them, and bytes that are no part of any.
PIECES = {
    "a": b"a",
    "b": "é".encode(),
    "c": "€".encode()[:1],
    "d": "€".encode()[1:],
    "e": "😀".encode()[:2],
    "f": "😀".encode()[2:],
    "g": b"\xff",
    "h": b"\xed\xa0",
    "i": b"",
}
REPLIES = ["abab", "cdcd", "acdb", "efef", "aefcdb", "cacaca", "ceefd", "gagag", "ha", "aiai", "cgd", "ccd", "eg"]
CHAT = [{"role": "user", "content": "hi"}]


@contextmanager
def running(reply: str, head: Head | None = None, **more: Any) -> Iterator[Running]:
    log = Log()
    model = served(ToyBase(reply), head=head, **more)
    ready = app(replace(model, token_bytes=lambda token: PIECES.get(chr(token), bytes([token]))), log)
    with serving(ready) as server:
        yield Running(server, ready, log)


def joined(content: bytes) -> dict[str, Any]:
    """Put a stream together as the choice of an unstreamed answer."""
    *chunks, done = events_of(content)
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    whole: dict[str, Any] = {**choices[-1], "token_ids": [id_ for choice in choices for id_ in choice["token_ids"]]}
    whole.pop("prompt_token_ids", None)
    if "delta" in whole:
        whole.pop("delta")
        content_parts = [choice["delta"].get("content", "") for choice in choices]
        whole["message"] = {"role": choices[0]["delta"]["role"], "content": "".join(content_parts)}
    else:
        whole["text"] = "".join(choice["text"] for choice in choices)
    parts = [choice["logprobs"] for choice in choices if choice["logprobs"] is not None]
    if parts:
        whole["logprobs"] = {key: [entry for part in parts for entry in part[key]] for key in parts[0]}
    return whole


def body(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    prompt: dict[str, Any] = {"messages": CHAT} if endpoint is Endpoint.CHAT else {"prompt": "xyz"}
    return {**prompt, "temperature": 0, "max_tokens": 11, "return_token_ids": True, **fields}


def whole_of(answer: dict[str, Any]) -> dict[str, Any]:
    choice: dict[str, Any] = dict(answer["choices"][0])
    choice.pop("prompt_token_ids", None)
    return choice


@pytest.mark.parametrize("endpoint", Endpoint)
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("drafts", [False, True])
def test_a_stream_over_broken_characters_joins_to_the_unstreamed_reply(reply: str, drafts: bool, endpoint: Endpoint) -> None:
    with running(reply, lookup() if drafts else None) as it:
        for fields in ({}, {"stop": ["\ufffd"]}, {"stop": ["€é", "é"]}, {"max_tokens": 3}):
            asked = body(endpoint, **fields)
            answer = it.ask(endpoint.value, asked)[1]
            stream = it.talk(http_post(endpoint.value, {**asked, "stream": True}))
            assert joined(stream) == whole_of(answer)


@pytest.mark.parametrize("reply", REPLIES)
def test_the_text_is_the_decoding_of_the_ids_bytes_and_no_chunk_has_half_a_character(reply: str) -> None:
    with running(reply) as it:
        asked = body(Endpoint.COMPLETION)
        choice = whole_of(it.ask(COMPLETIONS, asked)[1])
        data = b"".join(PIECES[chr(token)] for token in choice["token_ids"])
        assert choice["text"] == data.decode("utf-8", errors="replace")
        chunks = events_of(it.talk(http_post(COMPLETIONS, {**asked, "stream": True})))[:-1]
    shown = ""
    for chunk in chunks[:-1]:
        shown += chunk["choices"][0]["text"]
        assert choice["text"].startswith(shown)


def test_an_unfinished_character_is_in_no_chunk_before_the_last() -> None:
    with running("ac") as it:
        chunks = events_of(it.talk(http_post(COMPLETIONS, body(Endpoint.COMPLETION, max_tokens=2, stream=True))))[:-1]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "", "\ufffd"]


@pytest.mark.parametrize("fields", [{}, {"stop": ["\ufffd"]}, {"stop": ["é"]}, {"max_tokens": 1}], ids=str)
@pytest.mark.parametrize("reply", ["abab", "aefcdb", "gagag", "ab\x04", "\x04"])
def test_logprobs_of_a_completion_have_the_ids_length_whole_and_streamed(reply: str, fields: dict[str, Any]) -> None:
    with running(reply) as it:
        asked = body(Endpoint.COMPLETION, logprobs=2, **fields)
        choice = whole_of(it.ask(COMPLETIONS, asked)[1])
        stream = it.talk(http_post(COMPLETIONS, {**asked, "stream": True}))
    logprobs = choice["logprobs"]
    assert {key: len(values) for key, values in logprobs.items()} == dict.fromkeys(logprobs, len(choice["token_ids"]))
    assert joined(stream) == choice
    texts = [PIECES[chr(token)] for token in choice["token_ids"]]
    assert [token for token in logprobs["tokens"] if not token.startswith("bytes:")] == [
        text.decode() for text in texts if is_text(text)
    ]
    assert all(max(tops, key=tops.__getitem__) == token for tops, token in first_alternatives(logprobs))


def is_text(data: bytes) -> bool:
    return data.decode("utf-8", errors="ignore").encode() == data


def first_alternatives(logprobs: dict[str, Any]) -> Iterator[tuple[dict[str, float], str]]:
    for tops, token, logprob in zip(logprobs["top_logprobs"], logprobs["tokens"], logprobs["token_logprobs"], strict=True):
        assert next(iter(tops)) == token
        assert tops[token] == logprob < 0
        yield tops, token


def test_offsets_count_the_characters_in_front_of_each_token() -> None:
    with running("aefcdb") as it:
        choice = whole_of(it.ask(COMPLETIONS, body(Endpoint.COMPLETION, logprobs=0, max_tokens=7))[1])
    assert choice["text"] == "a😀€éa"
    assert choice["logprobs"]["text_offset"] == [0, 1, 1, 2, 2, 3, 4]
    assert [list(tops) for tops in choice["logprobs"]["top_logprobs"]] == [[token] for token in choice["logprobs"]["tokens"]]


@pytest.mark.parametrize("num_top", [None, 0, 3])
def test_logprobs_of_a_chat_have_the_ids_length_whole_and_streamed(num_top: int | None) -> None:
    with running("aefcdb") as it:
        asked = body(Endpoint.CHAT, logprobs=True, top_logprobs=num_top)
        choice = whole_of(it.ask(CHATS, asked)[1])
        stream = it.talk(http_post(CHATS, {**asked, "stream": True}))
    content = choice["logprobs"]["content"]
    assert joined(stream) == choice
    assert [bytes(entry["bytes"]) for entry in content] == [PIECES[chr(token)] for token in choice["token_ids"]]
    assert [len(entry["top_logprobs"]) for entry in content] == [num_top or 0] * len(content)
    assert all(entry["top_logprobs"][0]["token"] == entry["token"] for entry in content if num_top)


@pytest.mark.parametrize("endpoint", Endpoint)
def test_without_logprobs_there_are_none(endpoint: Endpoint) -> None:
    with running("ab") as it:
        assert it.ask(endpoint.value, body(endpoint))[1]["choices"][0]["logprobs"] is None
        assert it.ask(endpoint.value, body(endpoint, logprobs=False))[1]["choices"][0]["logprobs"] is None


def test_a_stream_without_ids_shows_the_logprobs_of_held_tokens_too() -> None:
    with running("abab") as it:
        asked = {**GREEDY, "logprobs": 1, "stop": ["aéaé", "zz"], "max_tokens": 3}
        events = events_of(it.talk(http_post(COMPLETIONS, {**asked, "stream": True})))[:-1]
        whole = it.ask(COMPLETIONS, asked)[1]["choices"][0]
    assert "".join(event["choices"][0]["text"] for event in events) == whole["text"] == "aéa"
    tokens = [token for event in events for token in event["choices"][0]["logprobs"]["tokens"]]
    assert tokens == whole["logprobs"]["tokens"] == ["a", "é", "a"]


def test_a_grammar_is_served_whole_and_streamed_and_a_bad_one_is_a_400_that_takes_no_id() -> None:
    with running("ab") as it:
        asked = body(Endpoint.COMPLETION, structured_outputs={"regex": "[ab]{3}z"})
        assert it.ask(COMPLETIONS, {**asked, "structured_outputs": {"regex": "("}})[1]["error"]["param"] == "structured_outputs"
        answer = it.ask(COMPLETIONS, asked)[1]
        stream = it.talk(http_post(COMPLETIONS, {**asked, "stream": True}))
    assert answer["id"] == "cmpl-1"
    assert joined(stream) == whole_of(answer)
    assert (answer["choices"][0]["token_ids"], answer["choices"][0]["finish_reason"]) == ([*b"abaz"], "stop")


def test_a_dump_is_there_before_the_answer_ends(tmp_path: Path) -> None:
    with running("ab", dump_directory=tmp_path) as it:
        answer = it.ask(COMPLETIONS, {**GREEDY, "logprobs": 0})[1]
        rows = np.load(tmp_path / f"{answer['id']}.npy")
        events = events_of(it.talk(http_post(CHATS, {**body(Endpoint.CHAT), "stream": True})))
        assert np.load(tmp_path / f"{events[0]['id']}.npy").shape == (11, VOCAB + 3)
    logits = rows[:, :VOCAB].astype(np.float64)
    chosen = logits.max(axis=1) - np.log(np.exp(logits).sum(axis=1))
    assert answer["choices"][0]["logprobs"]["token_logprobs"] == pytest.approx(chosen.tolist(), abs=1e-12)
    assert rows.shape == (8, VOCAB + 3)


def test_usage_and_line_say_what_was_cached() -> None:
    with running("ab", caches_prefixes=True) as it:
        first, second = (it.ask(COMPLETIONS, {**GREEDY, "return_spec": True})[1] for _ in range(2))
        lines = [it.line_of(answer["id"]) for answer in (first, second)]
    assert [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (first, second)] == [0, 2]
    assert [answer["usage"]["spec"]["cached"] for answer in (first, second)] == [0, 2]
    assert [" cached=0 " in lines[0], " cached=2 " in lines[1]] == [True, True]


def test_mixed_requests_at_once_equal_their_solo_replies_and_lines() -> None:
    fields: list[dict[str, Any]] = [
        {},
        {"logprobs": 2},
        {"structured_outputs": {"regex": "(ab|c){1,4}"}},
        {"presence_penalty": 1.5, "frequency_penalty": 0.5},
        {"logit_bias": {"98": -100}},
        {"temperature": 1, "seed": 5},
        {"temperature": 1, "seed": 5, "repetition_penalty": 1.3, "logprobs": 1},
        {"stop": ["ba"], "stream": False},
    ]
    bodies = [body(Endpoint.COMPLETION, return_spec=True, prompt="x" * (1 + n), **more) for n, more in enumerate(fields)]
    with running("abcab", lookup()) as it:
        solo = [it.ask(COMPLETIONS, asked)[1] for asked in bodies]
        with ThreadPoolExecutor(len(bodies)) as threads:
            for _ in range(3):
                got = list(threads.map(lambda asked: it.ask(COMPLETIONS, asked)[1], bodies))
                assert [(answer["choices"], answer["usage"]) for answer in got] == [
                    (answer["choices"], answer["usage"]) for answer in solo
                ]
    assert len({json.dumps(answer["choices"]) for answer in solo}) == len(solo)
