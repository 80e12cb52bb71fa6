"""Serve. What a request's body says under `act` is what happens to it."""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fake_engine

_lock = threading.Lock()


def say(line):
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def touch(path):
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR))


def in_child(path):
    pid = os.fork()
    if pid == 0:
        touch(path)
        os._exit(0)
    os.waitpid(pid, 0)


def daemonise():
    """Leave a process that has left every group and session, ignores signals and holds on; return when it does."""
    ready, said = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.write(said, b"!")
            while True:
                signal.pause()
        os._exit(0)
    os.waitpid(first, 0)
    os.read(ready, 1)
    os.close(ready)
    os.close(said)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send(200 if self.path != "/busy" else 503, b"{}")

    def send(self, status, content, kind="application/json", **headers):
        head = {"Content-Type": kind, "Content-Length": str(len(content)), **headers}
        lines = [f"HTTP/1.1 {status} X", *(f"{key}: {value}" for key, value in head.items())]
        self.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(raw)
        except ValueError:
            self.send(400, json.dumps({"error": {"message": raw.decode("latin-1"), "param": ""}}).encode())
            return
        with _lock:
            self.server.number += 1
            self.name = f"cmpl-{self.server.number}"
        self.body = body
        getattr(self, f"act_{body.get('act', 'answer').replace('-', '_')}")()

    def spec(self, name, reason="-", tokens=3):
        say(
            f"[spec] id={name} path=spec drafter=lookup rounds=1 drafted=4 accepted=1 plain=0 tokens={tokens}"
            f" cached=0 fallback=- reason={reason}"
        )

    def document(self, name, text="abc"):
        record = {"path": "spec", "drafter": "lookup", "rounds": 1, "drafted": 4, "accepted": 1, "plain": 0, "tokens": 3}
        record |= {"cached": 0, "fallback": None, "reason": "-", "per_round": [[[1, 2, 3, 4], 1]]}
        choice = {"index": 0, "text": text, "finish_reason": "length", "stop_reason": None, "logprobs": None}
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}, "spec": record}
        return {"id": name, "choices": [choice | {"token_ids": [64, 65, 66]}], "usage": usage}

    def act_answer(self):
        self.spec(self.name)
        self.send(200, json.dumps(self.document(self.name, self.body.get("text", "abc"))).encode())

    def act_facts(self):
        facts = {"argv": sys.argv, "environ": dict(os.environ), "cwd": str(Path.cwd()), "path": sys.path, "pid": os.getpid()}
        facts |= {"mark": fake_engine.MARK, "name": __name__, "cores": sorted(os.sched_getaffinity(0))}
        facts |= {"descriptors": sorted(int(one.name) for one in Path("/proc/self/fd").iterdir()), "modules": sorted(sys.modules)}
        facts |= {"file": __file__, "no_bytecode": sys.dont_write_bytecode}
        facts |= {"processes": [one.name for one in Path("/proc").iterdir()]}
        self.send(200, json.dumps({"id": self.name, "facts": facts}).encode())

    def act_raw(self):
        self.wfile.write(self.body["raw"].replace("NAME", self.name).encode("latin-1"))
        self.close_connection = True

    def act_body(self):
        self.send(self.body.get("status", 200), self.body["content"].replace("NAME", self.name).encode("latin-1"))

    def act_lines(self):
        for line in self.body["lines"]:
            say(line.replace("NAME", self.name))
        self.send(200, json.dumps(self.document(self.name)).encode())

    def act_late_line(self):
        self.send(200, json.dumps(self.document(self.name)).encode())
        self.spec(self.name)

    def act_fail(self):
        self.spec(self.name, reason="failed", tokens=0)
        self.send(500, b'{"error": {"message": "pass failed"}}')

    def act_stream(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        reason = "-"
        for index in range(self.body["chunks"]):
            finish = "length" if index == self.body["chunks"] - 1 else None
            choice = {"index": 0, "text": chr(97 + index % 26), "finish_reason": finish, "token_ids": [64 + index % 26]}
            if not self.event(json.dumps({"id": self.name, "choices": [choice], "usage": None})):
                reason = "cancelled"
                break
        else:
            self.event(json.dumps({"id": self.name, "choices": [], "usage": self.document(self.name)["usage"]}))
            self.event("[DONE]")
        self.spec(self.name, reason=reason, tokens=index + 1)
        if reason == "-":
            self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        content = f"data: {data}\n\n".encode()
        try:
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        except OSError:
            self.close_connection = True
            return False
        return True

    def act_open(self):
        {"process": touch, "child": in_child}[self.body["where"]](self.body["path"])
        self.act_answer()

    def act_submit(self):
        device = os.open(self.body["path"], os.O_RDWR)
        for _ in range(self.body["times"]):
            self.make_noise()
            ctypes.CDLL(None).ioctl(device, 0xA501, 0)
        os.close(device)
        self.act_answer()

    def act_noise(self):
        """Leave a child that submits to /dev/zero and opens files until it is killed, at least once whenever it is told."""
        self.server.noise, theirs = socket.socketpair()
        if os.fork() == 0:
            zero = os.open("/dev/zero", os.O_RDWR)
            while True:
                ctypes.CDLL(None).ioctl(zero, 0xA501, 0)
                touch(fake_engine.__file__)
                with contextlib.suppress(BlockingIOError):
                    theirs.send(theirs.recv(1, socket.MSG_DONTWAIT))
        self.act_answer()

    def make_noise(self):
        """Let the child that makes noise go round once more."""
        if self.server.noise is not None:
            self.server.noise.send(b"!")
            self.server.noise.recv(1)

    def act_daemonise(self):
        daemonise()
        self.act_answer()

    def act_spin(self):
        while True:
            pass

    def act_wait(self):
        threading.Event().wait()

    def act_drip(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            self.wfile.write(b" ")
            time.sleep(0.01)

    def act_exit(self):
        os._exit(self.body["status"])

    def act_meet(self):
        """Answer only when as many requests are inside as the body says."""
        with self.server.met:
            self.server.inside += 1
            self.server.met.notify_all()
            self.server.met.wait_for(lambda: self.server.inside >= self.body["count"])
        self.act_answer()


class Server(ThreadingHTTPServer):
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=int, default=0)
    parser.add_argument("--lookup", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--refuse")
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--unhealthy", action="store_true")
    options = parser.parse_args()
    if options.refuse:
        say(options.refuse)
        sys.exit(2)
    touch(Path(options.m) / "weights")
    if options.device:
        touch(options.device)
    if options.never_ready:
        say("loading for ever")
        threading.Event().wait()
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = socket.socket(fileno=3)
        server.server_address = server.socket.getsockname()
    else:
        server = Server(("127.0.0.1", options.p), Handler)
    server.number = 0
    server.noise = None
    server.inside = 0
    server.met = threading.Condition()
    if options.unhealthy:
        Handler.do_GET = lambda self: self.send(503, b"{}")
    say(f"[ready] port={server.server_address[1]} backend=fake")
    server.serve_forever()


if __name__ == "__main__":
    main()
