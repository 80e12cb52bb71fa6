"""The running engine: three arms on the golden container, refusals, hand-over, signals."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.forward_serve.serving.golden import unpack_container, write_pack

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20
PYTHON = [sys.executable, "-X", "faulthandler"]  # an engine that hangs says where, when it is aborted
ENGINE = [*PYTHON, "-m", "forward_serve"]
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-X", "faulthandler", "-m", "forward_serve", *sys.argv[2:]])
"""


class Engine:
    """One process of the engine. Its stderr is read line by line as it comes."""

    def __init__(self, *arguments: str, handed_over: socket.socket | None = None) -> None:
        command, descriptors = [*ENGINE, *arguments], list[int]()
        if handed_over is not None:
            descriptors = [handed_over.fileno()]
            command = [sys.executable, "-c", HAND_OVER, str(handed_over.fileno()), *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, pass_fds=descriptors)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()
        self.url = ""

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def next_line(self) -> str:
        line = self._get()
        assert line is not None, f"the engine ended with {self.process.wait(PATIENCE_S)}"
        return line

    def _get(self) -> str | None:
        try:
            return self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.process.send_signal(signal.SIGABRT)
            self._pump.join(PATIENCE_S)
            raise AssertionError("\n".join(["the engine hangs:", *map(str, self._lines.queue)])) from None

    def ready(self) -> str:
        line = self.next_line()
        match = re.match(r"\[ready\] port=([0-9]+) ", line)
        assert match is not None, line
        self.url = f"http://127.0.0.1:{match[1]}"
        return line

    def ask(self, path: str = "/v1/completions", **body: Any) -> Any:
        return requests.post(self.url + path, json=body, timeout=PATIENCE_S).json()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, list[str]]:
        """Signal the engine and return its exit status and the lines that were left."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> tuple[int, list[str]]:
        lines = [line for line in iter(self._get, None) if line is not None]
        return self.process.wait(PATIENCE_S), lines

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._pump.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the golden container `tiny` and a pack `pack` that lands some drafts."""
    directory = tmp_path_factory.mktemp("engine")
    unpack_container(directory / "tiny")
    write_pack(directory / "pack", seed=10)
    return directory


@pytest.fixture(scope="module")
def arms(files: Path) -> Iterator[dict[str, Engine]]:
    """One running engine for each arm."""
    model = ["-m", str(files / "tiny"), "-p", "0"]
    with (
        Engine(*model) as plain,
        Engine(*model, "--spec-lookup", "4") as lookup,
        Engine(*model, "--spec-draft", str(files / "pack")) as draft,
    ):
        arms = {"none": plain, "lookup": lookup, "dflash": draft}
        for drafter, arm in arms.items():
            assert f" backend=host drafter={drafter} " in arm.ready()
        yield arms
        for arm in arms.values():
            status, lines = arm.end()
            assert status == 0
            assert [line for line in lines if not line.startswith("[spec] id=")] == []


GREEDY: dict[str, Any] = {"temperature": 0, "return_token_ids": True, "return_spec": True}
REQUESTS: dict[str, dict[str, Any]] = {
    **{f"{budget} tokens": {"prompt": "Hello Hello", "max_tokens": budget} for budget in (1, 2, 5, 6, 24)},
    "long prompt of ids": {"prompt": [(7 * i + i * i) % 185 for i in range(70)], "max_tokens": 20},
    "stop inside the reply": {"prompt": "Hello Hello", "max_tokens": 24, "stop": [")))))", "/,)))))"]},
    "end of the context": {"prompt": [39, 68] * 505, "max_tokens": 100},
    "sampled": {"prompt": "Hello", "max_tokens": 30, "temperature": 1.0, "seed": 11},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_every_arm_gives_the_same_reply_streamed_and_whole(arms: dict[str, Engine], name: str) -> None:
    body = {**GREEDY, **REQUESTS[name]}
    replies = {drafter: arm.ask(**body) for drafter, arm in arms.items()}
    replies |= {f"{drafter} streamed": streamed(arm, body) for drafter, arm in arms.items()}
    got = {arm: essence(reply) for arm, reply in replies.items()}
    assert all(reply == got["none"] for reply in got.values()), got
    for drafter, reply in replies.items():
        check_accounting(reply["usage"]["spec"], drafter.split()[0], is_sampled=name == "sampled")


def streamed(arm: Engine, body: dict[str, Any]) -> dict[str, Any]:
    """Ask for a stream and put it together as an unstreamed answer."""
    response = requests.post(f"{arm.url}/v1/completions", json={**body, "stream": True}, timeout=PATIENCE_S)
    *events, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    *chunks, usage = [json.loads(event) for event in events]
    choices = [chunk["choices"][0] for chunk in chunks]
    joined = {
        **choices[-1],
        "text": "".join(choice["text"] for choice in choices),
        "token_ids": [token for choice in choices for token in choice["token_ids"]],
        "prompt_token_ids": choices[0]["prompt_token_ids"],
    }
    return {**usage, "choices": [joined]}


def essence(reply: dict[str, Any]) -> dict[str, Any]:
    """What two arms must agree in."""
    usage = {key: value for key, value in reply["usage"].items() if key != "spec"}
    return {"choices": reply["choices"], "usage": usage}


def check_accounting(spec: dict[str, Any], drafter: str, *, is_sampled: bool) -> None:
    assert spec["drafter"] == drafter
    assert spec["path"] == ("plain" if drafter == "none" or is_sampled else "spec")
    assert spec["tokens"] - spec["rounds"] - spec["plain"] - spec["accepted"] in {0, 1}
    assert spec["accepted"] == sum(accepted for _, accepted in spec["per_round"])
    assert spec["drafted"] == sum(len(ids) for ids, _ in spec["per_round"])
    assert len(spec["per_round"]) == spec["rounds"]


@pytest.mark.parametrize("drafter", ["lookup", "dflash"])
def test_a_drafter_lands_drafts_in_fewer_passes_and_its_line_equals_its_usage(arms: dict[str, Engine], drafter: str) -> None:
    arm = arms[drafter]
    reply = arm.ask(prompt="Hello Hello", max_tokens=24, **GREEDY)
    spec = reply["usage"]["spec"]
    assert 0 < spec["accepted"] <= spec["drafted"]
    assert spec["rounds"] + spec["plain"] < 23
    line = arm.next_line()
    while f" id={reply['id']} " not in line:
        line = arm.next_line()
    pairs = {key: "-" if value is None else str(value) for key, value in spec.items() if key != "per_round"}
    assert line == " ".join(["[spec]", f"id={reply['id']}", *(f"{key}={value}" for key, value in pairs.items())])


@pytest.mark.parametrize("drafter", ["none", "lookup", "dflash"])
def test_requests_at_once_equal_their_solo_replies_and_paths(arms: dict[str, Engine], drafter: str) -> None:
    bodies = [{**GREEDY, "prompt": "Hello " * number, "max_tokens": 10 + number} for number in range(1, 7)]
    solo = [arms[drafter].ask(**body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as threads:
        got = list(threads.map(lambda body: arms[drafter].ask(**body), bodies))
    assert [(reply["choices"], reply["usage"]) for reply in got] == [(reply["choices"], reply["usage"]) for reply in solo]


def test_a_chat_is_templated_with_its_literals_as_text(arms: dict[str, Engine]) -> None:
    messages = [{"role": "user", "content": "hi<|im_end|>"}]
    reply = arms["none"].ask("/v1/chat/completions", messages=messages, max_tokens=4, temperature=0, return_token_ids=True)
    assert [token for token in reply["prompt_token_ids"] if token in {185, 186, 187}] == [186, 185, 186]
    assert reply["usage"]["completion_tokens"] == 4


def test_failed_passes_are_500_and_the_next_reply_is_untouched(files: Path, arms: dict[str, Engine]) -> None:
    want = arms["none"].ask(prompt="Hello Hello", max_tokens=8, **GREEDY)
    for drafter in ([], ["--spec-lookup", "4"], ["--spec-draft", str(files / "pack")]):
        with Engine("-m", str(files / "tiny"), "-p", "0", "--fail-pass", "3", *drafter) as engine:
            assert engine.ready().endswith(" fail-pass=3")
            assert "--fail-pass=3" in engine.ask(prompt="Hello Hello", max_tokens=8, **GREEDY)["error"]["message"]
            assert engine.next_line().startswith("[error] id=cmpl-1 ")
            assert engine.next_line().endswith(" reason=failed")
            assert engine.ask(prompt="Hello Hello", max_tokens=8, **GREEDY)["choices"] == want["choices"]


def test_a_client_that_leaves_its_stream_ends_its_request(arms: dict[str, Engine]) -> None:
    arm = arms["none"]
    body = {"prompt": "Hello", "max_tokens": 1000, "temperature": 0, "stream": True}
    with requests.post(f"{arm.url}/v1/completions", json=body, stream=True, timeout=PATIENCE_S) as response:
        first = next(response.iter_lines())
    response_id = json.loads(first.removeprefix(b"data: "))["id"]
    line = arm.next_line()
    while f" id={response_id} " not in line:
        line = arm.next_line()
    fields = dict(pair.split("=") for pair in line.split()[1:])
    assert fields["reason"] == "cancelled"
    assert 0 < int(fields["tokens"]) < 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "{files}/tiny", "--frob"], "--frob"),
        (["-m", "{files}/none"], "{files}/none"),
        (["-m", "{files}/tiny", "--spec-lookup", "4", "--spec-draft", "{files}/pack"], "--spec-draft={files}/pack"),
        (["-m", "{files}/tiny", "--spec-draft", "{files}/none"], "{files}/none"),
        (["-m", "{files}/tiny", "--spec-draft", "{files}/pack", "--spec-draft-k", "6"], "--spec-draft-k=6"),
        (["-m", "{files}/tiny", "-p", "{port}"], "-p {port}"),
        (["-m", "{files}/tiny", "--dump-logits", "{files}/tiny/config.json"], "--dump-logits={files}/tiny/config.json"),
    ],
    ids=lambda value: value.replace("{files}/", "") if isinstance(value, str) else "",
)
def test_a_refusal_is_one_line_exit_2_and_no_listener(files: Path, arguments: list[str], said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = [argument.format(files=files, port=port) for argument in arguments]
        with Engine(*(["-p", "0"] if "-p" not in given else []), *given) as engine:
            status, lines = engine.rest()
    assert status == 2
    assert len(lines) == 1
    assert said.format(files=files, port=port) in lines[0]


@pytest.fixture
def slow(files: Path, tmp_path: Path) -> Path:
    """The golden container with a config.json that nobody has written yet: a pipe."""
    directory = tmp_path / "slow"
    directory.mkdir()
    for file in (files / "tiny").iterdir():
        (directory / file.name).symlink_to(file)
    (directory / "config.json").unlink()
    os.mkfifo(directory / "config.json")
    return directory


@pytest.mark.parametrize("is_good", [True, False])
def test_a_handed_over_socket_answers_503_while_loading_and_then_serves_or_refuses(
    files: Path, slow: Path, is_good: bool
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as owned,
        Engine("-m", str(slow), "-p", "1", handed_over=owned) as engine,
    ):
        port = owned.getsockname()[1]
        health = f"http://127.0.0.1:{port}/health"
        assert requests.get(health, timeout=PATIENCE_S).status_code == 503
        (slow / "config.json").write_text((files / "tiny" / "config.json").read_text() if is_good else "{}")
        if is_good:
            assert f" port={port} " in f"{engine.ready()} "
            assert requests.get(health, timeout=PATIENCE_S).status_code == 200
            assert engine.end() == (0, [])
        else:
            status, lines = engine.rest()
            assert (status, len(lines)) == (2, 1)
            assert "config.json" in lines[0]


def test_sigterm_while_loading_ends_cleanly(slow: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as owned,
        Engine("-m", str(slow), handed_over=owned) as engine,
    ):
        requests.get(f"http://127.0.0.1:{owned.getsockname()[1]}/health", timeout=PATIENCE_S)
        assert engine.end() == (0, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_inside_a_reply_ends_it_and_the_server_cleanly(files: Path, number: int) -> None:
    body = {"prompt": "Hello", "max_tokens": 1000, "temperature": 0, "stream": True}
    with Engine("-m", str(files / "tiny"), "-p", "0") as engine:
        engine.ready()
        with requests.post(f"{engine.url}/v1/completions", json=body, stream=True, timeout=PATIENCE_S) as response:
            lines = response.iter_lines()
            assert b'"text"' in next(lines)
            status, log = engine.end(number)
            last = [line for line in lines if line][-1]
    assert status == 0
    assert b"the server is ending" in last
    assert log[-1].endswith(" reason=failed")
