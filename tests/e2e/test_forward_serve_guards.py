"""The running engine on what forbids to speculate, with files of logits, and with a prefix cache; and what its start imports."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from tests.e2e.test_forward_serve import GREEDY, PATIENCE_S, ROOT, Engine
from tests.forward_serve.serving.golden import unpack_container, write_pack

pytestmark = pytest.mark.e2e

VOCAB = 256
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 22]}}, "required": ["a"], "additionalProperties": False}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "regex": ("grammar", {"structured_outputs": {"regex": "([a-f][0-9]){3}"}}),
    "regex cut": ("grammar", {"structured_outputs": {"regex": "([a-f][0-9]){20}"}}),
    "schema": ("grammar", {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
    "object": ("grammar", {"response_format": {"type": "json_object"}, "stop": ["\n"]}),
    "logprobs": ("logprobs", {"logprobs": 5, "stop": ["Hello", ")"]}),
    "presence": ("penalties", {"presence_penalty": 1.5}),
    "frequency": ("penalties", {"frequency_penalty": -1.0}),
    "repetition": ("penalties", {"repetition_penalty": 1.4}),
    "bias": ("logit-bias", {"logit_bias": {"3": 50, "8": -100}}),
    "sampled": ("sampled", {"temperature": 0.8, "seed": 3, "logprobs": 2, "presence_penalty": 0.5}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the golden container `tiny` and a pack `pack` that lands some drafts."""
    directory = tmp_path_factory.mktemp("engine")
    unpack_container(directory / "tiny")
    write_pack(directory / "pack", seed=10)
    return directory


@pytest.fixture(scope="module")
def arms(files: Path) -> Iterator[dict[str, Engine]]:
    """One running engine for each arm; those with a dump write to a directory of their own."""
    model = ["-m", str(files / "tiny"), "-p", "0"]
    drafts = {"plain": [], "lookup": ["--spec-lookup", "4"], "draft": ["--spec-draft", str(files / "pack")]}
    flags = {
        **drafts,
        **{f"cached-{name}": [*more, "--prefix-cache"] for name, more in drafts.items()},
        **{f"dump-{name}": [*more, "--dump-logits", str(files / name)] for name, more in drafts.items()},
    }
    with ExitStack() as stack:
        running = {name: stack.enter_context(Engine(*model, *more)) for name, more in flags.items()}
        for engine in running.values():
            engine.ready()
        yield running
        for engine in running.values():
            status, lines = engine.end()
            assert status == 0
            assert [line for line in lines if not line.startswith("[spec] id=")] == []


def essence(reply: dict[str, Any]) -> dict[str, Any]:
    usage = {key: value for key, value in reply["usage"].items() if key not in {"spec", "prompt_tokens_details"}}
    return {"choices": reply["choices"], "usage": usage}


@pytest.mark.parametrize("name", ASKED)
def test_what_forbids_to_speculate_is_served_plainly_with_its_reason_and_the_plain_reply(
    arms: dict[str, Engine], name: str
) -> None:
    reason, fields = ASKED[name]
    body = {**GREEDY, "prompt": "Hello Hello", "max_tokens": 16, **fields}
    want = arms["plain"].ask(**body)
    for drafter in ("lookup", "draft", "cached-lookup", "cached-draft"):
        got = arms[drafter].ask(**body)
        assert essence(got) == essence(want)
        spec = got["usage"]["spec"]
        assert (spec["path"], spec["reason"], spec["drafted"], spec["rounds"]) == ("plain", reason, 0, 0)
    assert (want["usage"]["spec"]["path"], want["usage"]["spec"]["reason"]) == ("plain", "-")


def test_a_constrained_reply_satisfies_its_grammar_or_begins_one(arms: dict[str, Engine]) -> None:
    body = {**GREEDY, "prompt": "Hello", "max_tokens": 16}
    choices = {name: arms["plain"].ask(**body, **ASKED[name][1])["choices"][0] for name in ("regex", "regex cut")}
    assert [len(choices[name]["text"]) for name in ("regex", "regex cut")] == [6, 16]
    assert choices["regex"]["stop_reason"] in {185, 187}
    assert choices["regex cut"]["finish_reason"] == "length"
    pairs = zip(choices["regex cut"]["text"][::2], choices["regex cut"]["text"][1::2], strict=True)
    assert all(letter in "abcdef" and digit in "0123456789" for letter, digit in pairs)


def test_a_schema_is_satisfied_where_whitespace_is_banned(arms: dict[str, Engine]) -> None:
    no_space = {str(token): -100 for token in (*range(197, 201), 220)}
    answer = arms["lookup"].ask(
        "/v1/chat/completions",
        messages=[{"role": "user", "content": "hi"}],
        temperature=0,
        logit_bias=no_space,
        **ASKED["schema"][1],
    )
    assert json.loads(answer["choices"][0]["message"]["content"])["a"] in {1, 22}
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_every_logprob_is_that_of_a_plain_request_for_one_token_at_its_place(arms: dict[str, Engine]) -> None:
    prompt = [39, 68, 75, 75, 78]
    choice = arms["draft"].ask(**GREEDY, prompt=prompt, max_tokens=6, logprobs=20)["choices"][0]
    for index, token in enumerate(choice["token_ids"]):
        before = [*prompt, *choice["token_ids"][:index]]
        alone = arms["plain"].ask(**GREEDY, prompt=before, max_tokens=1, logprobs=20)["choices"][0]
        assert alone["token_ids"] == [token]
        for key in ("tokens", "token_logprobs", "top_logprobs"):
            assert alone["logprobs"][key] == [choice["logprobs"][key][index]]


@pytest.mark.parametrize("name", ["greedy", *ASKED])
def test_each_arm_dumps_the_rows_that_chose_the_plain_reply(files: Path, arms: dict[str, Engine], name: str) -> None:
    body = {**GREEDY, "prompt": "Hello Hello", "max_tokens": 12, **(ASKED[name][1] if name in ASKED else {}), "logprobs": 0}
    want = arms["plain"].ask(**body)
    dumps = {}
    for drafter in ("plain", "lookup", "draft"):
        got = arms[f"dump-{drafter}"].ask(**body)
        assert essence(got) == essence(want)
        dumps[drafter] = (files / drafter / f"{got['id']}.npy").read_bytes()
        rows = np.load(files / drafter / f"{got['id']}.npy")
    assert dumps["lookup"] == dumps["draft"] == dumps["plain"]
    assert (rows.dtype, rows.shape) == (np.float32, (want["usage"]["completion_tokens"], VOCAB))
    choice = want["choices"][0]
    for row, token, logprob in zip(
        rows.astype(np.float64), choice["token_ids"], choice["logprobs"]["token_logprobs"], strict=True
    ):
        assert math.isclose(row[token] - row.max() - math.log(np.exp(row - row.max()).sum()), logprob, abs_tol=1e-9)


def test_a_greedy_request_of_a_dumping_server_says_why_it_is_plain(arms: dict[str, Engine]) -> None:
    for drafter in ("lookup", "draft"):
        assert arms[f"dump-{drafter}"].ask(**GREEDY, prompt="Hello")["usage"]["spec"]["reason"] == "dump-logits"


def test_a_signal_inside_a_dumped_reply_leaves_no_file(files: Path, tmp_path: Path) -> None:
    body = {"prompt": "Hello", "max_tokens": 1000, "temperature": 0, "stream": True}
    with Engine("-m", str(files / "tiny"), "-p", "0", "--dump-logits", str(tmp_path)) as engine:
        assert engine.ready().endswith(" dump-logits=on")
        with requests.post(f"{engine.url}/v1/completions", json=body, stream=True, timeout=PATIENCE_S) as response:
            lines = response.iter_lines()
            assert b'"text"' in next(lines)
            status, log = engine.end(signal.SIGTERM)
            last = [line for line in lines if line][-1]
    assert (status, b"the server is ending" in last) == (0, True)
    assert log[-1].endswith(" reason=failed")
    assert list(tmp_path.iterdir()) == []


CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("drafter", ["plain", "lookup", "draft"])
def test_a_chat_that_goes_on_resumes_and_equals_the_uncached_replies(arms: dict[str, Engine], drafter: str) -> None:
    cached, fresh = arms[f"cached-{drafter}"], arms[drafter]
    cached.ask(**GREEDY, prompt=[1])  # nothing of a chat is left
    messages = [{"role": "user", "content": "Hello Hello"}]
    run: list[int] = []
    for turn in range(3):
        body = {**GREEDY, "messages": messages, "max_tokens": 20, "ignore_eos": True}
        got, want = cached.ask(CHAT, **body), fresh.ask(CHAT, **body)
        assert essence(got) == essence(want)
        prompt = got["prompt_token_ids"]
        num_cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
        common = next((i for i, (a, b) in enumerate(zip(run, prompt, strict=False)) if a != b), min(len(run), len(prompt)))
        assert num_cached == got["usage"]["spec"]["cached"] == min(common, len(prompt) - 1)
        assert (num_cached > 0) == (turn > 0)
        if drafter == "draft" and turn:
            assert (got["usage"]["spec"]["reason"], got["usage"]["spec"]["drafted"]) == ("no-taps", 0)
        else:
            counts = ("path", "rounds", "drafted", "accepted", "plain", "tokens", "reason", "per_round")
            assert [got["usage"]["spec"][key] for key in counts] == [want["usage"]["spec"][key] for key in counts]
        spec = got["usage"]["spec"]
        last = spec["tokens"] - spec["rounds"] - spec["plain"] - spec["accepted"]
        reply_ids = got["choices"][0]["token_ids"]
        run = [*prompt, *reply_ids[: len(reply_ids) - last]]
        messages += [{"role": "assistant", "content": got["choices"][0]["message"]["content"]}, {"role": "user", "content": "on"}]


def test_a_failed_pass_of_a_cached_server_leaves_what_was_committed(files: Path, arms: dict[str, Engine]) -> None:
    prompt = [(7 * i + i * i) % 185 for i in range(50)]
    body = {**GREEDY, "prompt": prompt, "max_tokens": 8}
    with Engine("-m", str(files / "tiny"), "-p", "0", "--prefix-cache", "--fail-pass", "3") as engine:
        assert engine.ready().endswith(" prefix-cache=on fail-pass=3")
        assert "error" in engine.ask(**body)
        got = engine.ask(**body)
    assert got["usage"]["prompt_tokens_details"]["cached_tokens"] == 32
    assert essence(got) == essence(arms["plain"].ask(**body))


ONLY_SOME_NEED = {"jinja2", "llguidance", "numpy.random", "forward_serve.decoding.dflash", "forward_serve.device"}
ASK_WHAT_WAS_IMPORTED = """
import json, sys
from pathlib import Path
from forward_serve.serving.flags import parse_flags
import forward_serve.__main__
from forward_serve.serving.engine import Engine
from forward_serve.serving.startup import load
load(parse_flags(["-m", sys.argv[1]]))
print(json.dumps(sorted(sys.modules)))
"""


def test_a_start_imports_nothing_that_only_some_requests_need(files: Path) -> None:
    command = [sys.executable, "-c", ASK_WHAT_WAS_IMPORTED, str(files / "tiny")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    imported = set(json.loads(done.stdout))
    assert "forward_serve.serving.engine" in imported
    assert ONLY_SOME_NEED & imported == set()
