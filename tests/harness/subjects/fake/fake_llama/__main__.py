"""Serve. A reply is the alphabet from "a" on; with --drafts each of three tokens or more had one round of two drafts, one accepted."""

import argparse
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOTALS = {"draft_tokens": 0, "accepted_tokens": 0, "drafts": 0, "predicted": 0}
BUSY = [0]
LOCK = threading.Lock()
END = 20  # the id that ends a reply of that length
FIRST = 64  # the id of "a"


def metrics():
    names = {
        "llamacpp:spec_decode_num_draft_tokens_total": TOTALS["draft_tokens"],
        "llamacpp:spec_decode_num_accepted_tokens_total": TOTALS["accepted_tokens"],
        "llamacpp:spec_decode_num_drafts_total": TOTALS["drafts"],
        "llamacpp:tokens_predicted_total": TOTALS["predicted"],
        "llamacpp:prompt_tokens_cached_total": 0,
        "llamacpp:requests_processing": BUSY[0],
    }
    return "".join(f"# TYPE {name} counter\n{name} {value}\n" for name, value in names.items()).encode()


def final(tokens, body, drafts):
    timings = {"cache_n": 0, "prompt_n": 2, "predicted_n": len(tokens), "predicted_ms": 0.5}
    if drafts and len(tokens) > 2:
        timings |= {"draft_n": 2, "draft_n_accepted": 1}
    kind = "eos" if tokens[-1:] == [END] else "limit"
    text = "".join(chr(33 + token) for token in tokens if token != END)
    for stop in body.get("stop", []):
        if stop in text:
            text, kind = text[: text.index(stop)], "word"
            body["stopping_word"] = stop
    return {
        "index": 0,
        "content": text,
        "tokens": tokens if body.get("return_tokens") else [],
        "stop": True,
        "stop_type": kind,
        "stopping_word": body.get("stopping_word", "") if kind == "word" else "",
        "tokens_predicted": len(tokens),
        "tokens_evaluated": 2,
        "timings": timings,
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send(200, metrics() if self.path == "/metrics" else b'{"status":"ok"}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/completion" or "prompt" not in body:
            return self.send(400, b'{"error":{"code":400,"message":"no","type":"invalid_request_error"}}')
        tokens = [FIRST + index for index in range(body["n_predict"])]
        if body["prompt"] == "end":
            tokens[-1] = END
        drafts = self.server.drafts
        answer = final(tokens, body, drafts)
        with LOCK:
            TOTALS["predicted"] += len(tokens) + self.server.miscounts
            if "draft_n" in answer["timings"]:
                TOTALS["draft_tokens"] += 2
                TOTALS["accepted_tokens"] += 1
                TOTALS["drafts"] += 1
        if body.get("stream"):
            return self.stream(answer, tokens)
        return self.send(200, json.dumps(answer).encode())

    def stream(self, answer, tokens):
        """Send an event for each token and the closing one, then hang up without a word."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [
            {"index": 0, "content": chr(33 + token) if token != END else "", "tokens": [token], "stop": False} for token in tokens
        ]
        for event in (*events, {**answer, "content": "", "tokens": []}):
            data = b"data: " + json.dumps(event).encode() + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def send(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--drafts", action="store_true")
    parser.add_argument("--miscounts", type=int, default=0)
    flags = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.drafts, server.miscounts = flags.drafts, flags.miscounts
    sys.stderr.write(f"0.00.020.843 [ready] port={server.server_port} drafters=none\n")
    sys.stderr.flush()
    server.serve_forever()


main()
