"""Serve one of several wires: vllm, sglang, mlx, trtllm, onebit. It takes the flags of the real engine.

A reply goes through the small letters, from one that its prompt's length picks; behind a prompt that begins with "end" its fourth token is
the end token. A server that was given a drafter has a round for each three tokens of a reply: two drafts, one of them right.
"""

import itertools
import json
import os
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FIRST, LETTERS, BASE = 64, 26, 33  # the id of "a"; a printable character's id is its code less 33
END, END_AT = 185, 3
CONTEXT = 1024
SAMPLING = ("temperature", "top_k", "top_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias")
TRT_FIELDS = {
    *SAMPLING,
    "model",
    "prompt",
    "max_tokens",
    "stop",
    "stream",
    "stream_options",
    "ignore_eos",
    "logprobs",
    "response_format",
}
TOTALS = {"drafted": 0, "accepted": 0, "rounds": 0, "tokens": 0}
LOCK = threading.Lock()
NUMBERS = itertools.count(1)


@dataclass
class Generated:
    ids: list  # the end token too
    text: str
    finish: str
    stop: object  # a stop string, or the end token
    num_prompt: int
    name: str = field(default_factory=lambda: f"cmpl-{next(NUMBERS)}")

    @property
    def rounds(self):
        return len(self.ids) // 3 if DRAFTS else 0

    @property
    def pieces(self):
        """The text that each token shows; what a stop cuts is shown by none."""
        return [self.text[index : index + 1] for index in range(len(self.ids))]


def generate(prompt, budget, stops):
    ids = [ord(letter) - BASE for letter in prompt] if isinstance(prompt, str) else prompt
    is_ended = "".join(chr(BASE + token) for token in ids).startswith("end")
    made, text = [], ""
    for place in range(budget):
        if is_ended and place == END_AT:
            return Generated([*made, END], text, "stop", END, len(ids))
        made.append(FIRST + (len(ids) + place) % LETTERS)
        text += chr(BASE + made[-1])
        for stop in [stops] if isinstance(stops, str) else stops or []:
            if stop in text:
                return Generated(made, text[: text.index(stop)], "stop", stop, len(ids))
    return Generated(made, text, "length", None, len(ids))


def count(done):
    with LOCK:
        TOTALS["drafted"] += 2 * done.rounds
        TOTALS["accepted"] += done.rounds
        TOTALS["rounds"] += done.rounds
        TOTALS["tokens"] += len(done.ids)


def score(token):
    return -0.25 - token / 1024


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"
    probe, path_of_completions = "/health", "/v1/completions"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == self.probe:
            return self.send(200, {})
        return self.send(404, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != self.path_of_completions:
            return self.send(404, {"error": "no such path"})
        refusal = self.refusal(body)
        if refusal:
            return self.send(*refusal)
        done = self.generated(body)
        count(done)
        if body.get("stream"):
            return self.stream(self.events(done, body))
        return self.send(200, self.answer(done, body))

    def generated(self, body):
        return generate(body["prompt"], body["max_tokens"], body.get("stop"))

    def send(self, status, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        is_chunked = self.protocol_version == "HTTP/1.1"
        if is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in (*events, "[DONE]"):
            data = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")


class Vllm(Handler):
    """End tokens among the ids and counted; counts at the body's top level; stop_reason null at an end token."""

    def do_GET(self):
        return self.send(200, self.metrics()) if self.path == "/metrics" else super().do_GET()

    def metrics(self):
        names = {"vllm:generation_tokens_total": TOTALS["tokens"], "vllm:num_requests_running": 0}
        if DRAFTS:
            names |= {
                "vllm:spec_decode_num_drafts_total": TOTALS["rounds"],
                "vllm:spec_decode_num_draft_tokens_total": TOTALS["drafted"],
                "vllm:spec_decode_num_accepted_tokens_total": TOTALS["accepted"],
            }
        lines = [
            f'# TYPE {name} counter\n{name}{{engine="0",model_name="fixture"}} {float(value)}\n' for name, value in names.items()
        ]
        return "".join(lines).encode()

    def refusal(self, body):
        for name, is_wrong in (("prompt", "prompt" not in body), ("max_tokens", body.get("max_tokens", 1) < 1)):
            if is_wrong:
                return 400, {"error": {"message": f"bad {name}", "type": "BadRequestError", "param": name, "code": 400}}
        if isinstance(body.get("stop"), list) and len(body["stop"]) > 4:
            return 400, {"error": {"message": "too many", "type": "BadRequestError", "param": "stop", "code": 400}}
        if len(body["prompt"]) >= CONTEXT:
            return 400, {"error": {"message": "too long", "type": "BadRequestError", "param": "prompt", "code": 400}}
        return None

    def choice(self, done, body, ids, text, finish, first=0):
        stop = done.stop if isinstance(done.stop, str) and finish else None
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": finish,
            "stop_reason": stop,
            "logprobs": None,
            "prompt_logprobs": None,
        }
        if body.get("logprobs") is not None:
            choice["logprobs"] = self.scores(done, ids, first, body["logprobs"])
        return choice | ({"token_ids": ids} if body.get("return_token_ids") else {"token_ids": None})

    def scores(self, done, ids, first, num):
        shown = [chr(BASE + token) if token != END else "<|im_end|>" for token in done.ids]
        others = [{chr(BASE + token + rank): score(token) - rank for rank in range(max(num, 1))} for token in ids]
        offsets = [sum(map(len, shown[:place])) for place in range(first, first + len(ids))]
        tokens = shown[first : first + len(ids)]
        return {"tokens": tokens, "token_logprobs": list(map(score, ids)), "top_logprobs": others, "text_offset": offsets}

    def usage(self, done):
        size = len(done.ids)
        return {"prompt_tokens": done.num_prompt, "completion_tokens": size, "total_tokens": done.num_prompt + size}

    def path_of(self, done):
        if not DRAFTS:
            return None
        spec = {"num_spec_steps": done.rounds, "num_draft_tokens": 2 * done.rounds, "num_accepted_draft_tokens": done.rounds}
        return {"speculative_decoding": {**spec, "per_step_accepted": [1] * done.rounds, "per_step_drafted": [2] * done.rounds}}

    def answer(self, done, body):
        choice = self.choice(done, body, done.ids, done.text, done.finish)
        head = {"id": done.name, "object": "text_completion", "created": 1, "model": "fixture"}
        return head | {"choices": [choice], "usage": self.usage(done), "metrics": self.path_of(done)}

    def events(self, done, body):
        head = {"id": done.name, "object": "text_completion", "created": 1, "model": "fixture"}
        for place, (token, text) in enumerate(zip(done.ids, done.pieces, strict=True)):
            finish = done.finish if place == len(done.ids) - 1 else None
            yield head | {"choices": [self.choice(done, body, [token], text, finish, place)], "usage": None}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield head | {"choices": [], "usage": self.usage(done), "metrics": self.path_of(done)}


class Trtllm(Vllm):
    """Extra fields are forbidden and `model` is required; no ids; a mean where counts would be."""

    def do_GET(self):
        return Handler.do_GET(self)

    def refusal(self, body):
        strange = sorted(set(body) - TRT_FIELDS) or ["model"] * ("model" not in body)
        if strange or "prompt" not in body or len(body["prompt"]) >= CONTEXT:
            return 400, {"object": "error", "message": f"{strange}", "type": "BadRequestError", "param": None, "code": 400}
        return None

    def choice(self, *arguments):
        return super().choice(*arguments) | {"avg_decoded_tokens_per_iter": 1.5, "token_ids": None}

    def path_of(self, _done):
        return None


class Mlx(Handler):
    """HTTP/1.0; no ids; every field that it does not know is let be; a stream ends with an empty event."""

    protocol_version = "HTTP/1.0"

    def refusal(self, body):
        if "prompt" not in body or not isinstance(body.get("logprobs", False), bool):
            return 400, {"error": "no"}
        return None if isinstance(body["prompt"], str) else (404, {"error": "text input must be of type `str`"})

    def head(self, done, choices):
        return {"id": done.name, "object": "text_completion", "model": "default_model", "created": 1, "choices": choices}

    def usage(self, done):
        return {
            "prompt_tokens": done.num_prompt,
            "completion_tokens": len(done.ids),
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def answer(self, done, _body):
        return self.head(done, [{"index": 0, "finish_reason": done.finish, "text": done.text}]) | {"usage": self.usage(done)}

    def events(self, done, body):
        for text in done.text:
            yield self.head(done, [{"index": 0, "finish_reason": None, "text": text}])
        yield self.head(done, [{"index": 0, "finish_reason": done.finish, "text": ""}])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield self.head(done, []) | {"usage": self.usage(done)}


class Onebit(Mlx):
    """No usage; every reply is said to end by "stop", and no field but the budget means anything; a stream comes in one event."""

    protocol_version = "HTTP/1.1"

    def refusal(self, body):
        return (400, {"error": "bad prompt"}) if len(body.get("prompt", "") or "x" * CONTEXT) >= CONTEXT else None

    def generated(self, body):
        return generate(body["prompt"], body["max_tokens"], None)

    def answer(self, done, _body):
        return self.head(done, [{"index": 0, "finish_reason": "stop", "text": done.text}])

    def events(self, done, body):
        yield self.answer(done, body)


class Sglang(Handler):
    """POST /generate; events hold what is new; counts are absent where no verify ran."""

    probe, path_of_completions = "/ready", "/generate"

    def refusal(self, body):
        size = len(body.get("text") or body.get("input_ids") or "x" * CONTEXT)
        return (400, {"error": {"message": "the input is too long, or missing"}}) if size >= CONTEXT else None

    def generated(self, body):
        sampling = body["sampling_params"]
        return generate(body.get("text") or body["input_ids"], sampling["max_new_tokens"], sampling.get("stop"))

    def part(self, done, body, places, finish):
        meta = {"id": done.name, "finish_reason": None, "prompt_tokens": done.num_prompt, "weight_version": "default"}
        meta |= {"completion_tokens": places.stop, "cached_tokens": 0}
        ids = done.ids[places.start : places.stop]
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [[score(token), token, chr(BASE + token)] for token in ids]
            num = body["top_logprobs_num"]
            best = [
                [[score(token) - rank, token + rank, chr(BASE + token + rank)] for rank in range(num)] or None for token in ids
            ]
            meta |= {"output_top_logprobs": best} if num else {}
        if finish:
            how = (
                {"type": "length", "length": len(done.ids)} if done.finish == "length" else {"type": "stop", "matched": done.stop}
            )
            meta |= {"finish_reason": how, "e2e_latency": 0.01}
            if done.rounds:
                meta |= {"spec_verify_ct": done.rounds, "spec_num_proposed_drafts": 2 * done.rounds}
                meta |= {"spec_num_correct_drafts": done.rounds}
        text = "".join(done.pieces[places.start : places.stop])
        return {"text": text, "output_ids": ids, "meta_info": meta}

    def answer(self, done, body):
        return self.part(done, body, range(len(done.ids)), True)

    def events(self, done, body):
        for place in range(len(done.ids)):
            yield self.part(done, body, range(place, place + 1), place == len(done.ids) - 1)


WIRES = {
    "vllm": (Vllm, ""),
    "trtllm": (Trtllm, ""),
    "mlx": (Mlx, "2026-01-01 00:00:00,000 - INFO - Starting httpd at 127.0.0.1 on port {port}..."),
    "sglang": (Sglang, "[2026-01-01 00:00:00] The server is fired up and ready to roll!"),
    "onebit": (Onebit, ""),
}
DRAFTERS = ("--speculative-config", "--speculative-algorithm", "--draft-model", "--spec-lookup", "--spec-draft")
_, WIRE, *FLAGS = sys.argv
DRAFTS = any(flag in DRAFTERS or flag.startswith("speculative_config=") for flag in FLAGS)


def main():
    configs = [value for flag, value in itertools.pairwise(FLAGS) if flag == "--speculative-config"]
    if any({"method", "num_speculative_tokens"} - json.loads(config).keys() for config in configs):
        sys.exit(2)
    if "--open" in FLAGS:
        os.close(os.open(FLAGS[FLAGS.index("--open") + 1], os.O_RDWR))
    handler, line = WIRES[WIRE]
    server = ThreadingHTTPServer(("127.0.0.1", int(FLAGS[FLAGS.index("--port") + 1])), handler)
    if line:
        sys.stderr.write(line.format(port=server.server_port) + "\n")
        sys.stderr.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
