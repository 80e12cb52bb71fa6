"""transformers' `generate` on torch's CPU build, behind a small HTTP server: plain, with prompt lookup, or with an assistant model.

    python -m harness.subjects.families.transformers_server --model FOLDER --port 0 --prompt-lookup 4

It serves OpenAI's `POST /v1/completions` with token ids, one request at a time. Everything that decodes is transformers' own; what its
candidate generators propose, and how much of it is kept, is written down by wrapping their two methods, and stands in the answer under
`assisted`. It binds to loopback alone, says on stderr which port it got, and serves until SIGTERM. Exit status 2: a flag or a folder is
wrong, or torch or transformers are missing. It imports nothing of the harness but the HTTP beside it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.subjects.families.completions import BadRequestError, handler_for

HOST = "127.0.0.1"
REFUSED = 2


@dataclass(slots=True)
class Rounds:
    """What was drafted for one reply, round by round."""

    listed: list[tuple[list[int], int]] = field(default_factory=list)  # ids proposed, and how many were kept
    _proposed: list[int] = field(default_factory=list)

    def watch(self, generator: Any) -> Any:
        """Write down what a candidate generator proposes and is told; it stays what it is."""
        propose, be_told = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(input_ids: Any, **others: Any) -> Any:
            candidates, logits = propose(input_ids, **others)
            self._proposed = candidates[0, input_ids.shape[1] :].tolist()
            return candidates, logits

        def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            if self._proposed:
                self.listed.append((self._proposed, int(num_matches)))
            return be_told(input_ids, scores, num_matches)

        generator.get_candidates, generator.update_candidate_strategy = get_candidates, update_candidate_strategy
        return generator

    def as_json(self) -> dict[str, Any]:
        """Return it as an answer says it."""
        return {
            "rounds": len(self.listed),
            "drafted": sum(len(ids) for ids, _ in self.listed),
            "accepted": sum(kept for _, kept in self.listed),
            "per_round": [[ids, kept] for ids, kept in self.listed],
        }


@dataclass(frozen=True, slots=True)
class Generated:
    """One reply: its ids without the prompt, scores of each step where they were asked for, and its rounds."""

    ids: list[int]
    rows: Sequence[Any]
    rounds: Rounds


class Model:
    """A model folder with its tokenizer and, where there is one, what drafts for it."""

    def __init__(self, torch: Any, transformers: Any, flags: argparse.Namespace) -> None:
        self._torch = torch
        self._model = _load(torch, transformers, flags.model)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(flags.model)
        self._drafting: dict[str, Any] = {}
        if flags.prompt_lookup:
            self._drafting = {"prompt_lookup_num_tokens": flags.prompt_lookup, "max_matching_ngram_size": flags.max_ngram}
        if flags.assistant is not None:
            assistant = _load(torch, transformers, flags.assistant)
            assistant.generation_config.num_assistant_tokens = flags.num_assistant_tokens
            assistant.generation_config.num_assistant_tokens_schedule = "constant"
            assistant.generation_config.assistant_confidence_threshold = 0.0  # it drafts as many as it is told to
            self._drafting = {"assistant_model": assistant}
        self.context = int(self._model.config.max_position_embeddings)
        ends = self._model.config.eos_token_id
        self._ends: list[int] = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)

    def ids_of(self, prompt: str | list[int]) -> list[int]:
        """Return a prompt's ids."""
        return prompt if isinstance(prompt, list) else list(self._tokenizer.encode(prompt, add_special_tokens=False))

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text that ids spell."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def is_end(self, token: int) -> bool:
        """Whether a token ends a reply."""
        return token in self._ends

    def generate(self, prompt: list[int], budget: int, body: Mapping[str, Any]) -> Generated:
        """Return what transformers says after a prompt."""
        torch, rounds = self._torch, Rounds()
        ids = torch.tensor([prompt])
        ends = [] if body.get("ignore_eos") else self._ends
        asked: dict[str, Any] = {"eos_token_id": ends or None, **_sampling(body), **self._drafting}
        if body.get("stop"):
            asked |= {"stop_strings": body["stop"], "tokenizer": self._tokenizer}
        make = type(self._model)._get_candidate_generator
        self._model._get_candidate_generator = lambda **given: rounds.watch(make(self._model, **given))
        if "seed" in body:
            torch.manual_seed(body["seed"])
        with torch.inference_mode():
            said = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=budget,
                return_dict_in_generate=True,
                output_logits=body.get("logprobs") is not None,
                **asked,
            )
        return Generated(said.sequences[0, len(prompt) :].tolist(), said.logits or (), rounds)

    def logprobs(self, ids: Sequence[int], rows: Sequence[Any], num_top: int) -> dict[str, Any]:
        """Return scores as OpenAI's completions spell them."""
        tables = [self._torch.log_softmax(row[0].double(), dim=-1) for row in rows]
        texts = [self.text_of([token]) for token in ids]
        tops = []
        for token, table in zip(ids, tables, strict=True):
            best = self._torch.topk(table, num_top).indices.tolist() if num_top else []
            kept = best if token in best or not best else [token, *best]
            tops.append({self.text_of([one]): float(table[one]) for one in kept})
        return {
            "tokens": texts,
            "token_logprobs": [float(table[token]) for token, table in zip(ids, tables, strict=True)],
            "top_logprobs": tops,
            "text_offset": [len("".join(texts[:index])) for index in range(len(texts))],
        }


def _load(torch: Any, transformers: Any, folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _sampling(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return how tokens are chosen: what OpenAI's dialect leaves open is neither cut nor warmed."""
    temperature = float(body.get("temperature", 1.0))
    if temperature == 0:
        return {"do_sample": False}
    return {"do_sample": True, "temperature": temperature, "top_k": body.get("top_k", 0), "top_p": float(body.get("top_p", 1.0))}


def completion(model: Model, body: Mapping[str, Any], response_id: str) -> dict[str, Any]:
    """Return the answer to a checked body. Raises BadRequestError for a prompt that leaves no room."""
    prompt = model.ids_of(body["prompt"])
    room = model.context - len(prompt)
    if room < 1:
        raise BadRequestError(f"prompt: {len(prompt)} tokens, the context holds {model.context}; send fewer")
    said = model.generate(prompt, min(body["max_tokens"], room), body)
    choice = _choice(model, said, body)
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(choice["token_ids"])}
    if not body.get("return_token_ids"):
        del choice["token_ids"]
    return {
        "id": response_id,
        "object": "text_completion",
        "choices": [choice],
        "usage": usage,
        "assisted": said.rounds.as_json(),
    }


def _choice(model: Model, said: Generated, body: Mapping[str, Any]) -> dict[str, Any]:
    ids, finish, reason = said.ids, "length", None
    if ids and model.is_end(ids[-1]) and not body.get("ignore_eos"):
        ids, finish, reason = ids[:-1], "stop", ids[-1]
    text = model.text_of(ids)
    found = [(text.find(stop), stop) for stop in body.get("stop", ()) if stop in text]
    if found:
        at, reason = min(found)
        text, finish = text[:at], "stop"
    num_top = body.get("logprobs")
    scores = None if num_top is None else model.logprobs(ids, said.rows[: len(ids)], num_top)
    return {
        "index": 0,
        "text": text,
        "token_ids": ids,
        "finish_reason": finish,
        "stop_reason": reason,
        "logprobs": scores,
    }


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="transformers_server", allow_abbrev=False)
    made.add_argument("--model", type=Path, required=True)
    made.add_argument("--port", type=int, default=0)
    made.add_argument("--threads", type=int, default=1)
    drafters = made.add_mutually_exclusive_group()
    drafters.add_argument("--prompt-lookup", type=int, default=0, metavar="TOKENS")
    drafters.add_argument("--assistant", type=Path)
    made.add_argument("--max-ngram", type=int, default=2)
    made.add_argument("--num-assistant-tokens", type=int, default=4)
    return made


def main(arguments: Sequence[str], load: Callable[[], tuple[Any, Any]]) -> int:
    """Serve until SIGTERM; return the exit status. `load` imports torch and transformers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of all threads: it is waited for below
    flags = parser().parse_args(arguments)
    for folder in filter(None, (flags.model, flags.assistant)):
        if not (folder / "config.json").is_file():
            return _refuse(f"{folder}: holds no config.json; give a model folder")
    try:
        torch, transformers = load()
    except ImportError as error:
        return _refuse(f"torch or transformers is missing ({error}); pip install 'draftproof[torch]'")
    torch.set_num_threads(flags.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = Model(torch, transformers, flags)
    server = ThreadingHTTPServer((HOST, flags.port), handler_for(lambda body, name: completion(model, body, name)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    sys.stderr.write(
        f"[ready] port={server.server_address[1]} transformers={transformers.__version__} torch={torch.__version__}\n"
    )
    sys.stderr.flush()
    signal.sigwait({signal.SIGTERM})
    server.shutdown()
    return 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"transformers_server: {' '.join(message.split())}\n")
    return REFUSED


def _load_libraries() -> tuple[Any, Any]:
    import torch  # noqa: PLC0415 - seconds: not before the flags are known to be right
    import transformers  # noqa: PLC0415

    return torch, transformers


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _load_libraries))
