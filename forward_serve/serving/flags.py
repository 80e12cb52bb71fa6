"""The command line: flags, their rules, and refusals in one line. Opens nothing."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from forward_serve.errors import Refusal

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
DEFAULT_FALLBACK_WINDOW = 3  # rounds
PROGRAM = "forward-serve"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says. None = not given."""

    model: Path
    port: int = DEFAULT_PORT  # 0 = the system picks
    host: str = DEFAULT_HOST
    alias: str | None = None
    lookup_k: int = 0  # 0 = no lookup drafter
    draft: Path | None = None
    draft_k: int | None = None
    fallback_below: float = 0.0  # 0 = no rule
    fallback_window: int = DEFAULT_FALLBACK_WINDOW
    fail_pass: int | None = None
    device: Path | None = None  # of the simulated device; None = the host computes
    prefix_cache: bool = False
    dump_logits: Path | None = None  # a directory


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read the command line. Raises Refusal naming flag, value, rule and fix; `--help` prints and exits 0."""
    given = _parser().parse_args(arguments)
    _refuse_combinations(given)
    return Flags(
        model=given.model,
        port=DEFAULT_PORT if given.port is None else given.port,
        host=given.host or DEFAULT_HOST,
        alias=given.alias,
        lookup_k=given.spec_lookup or 0,
        draft=given.spec_draft,
        draft_k=given.spec_draft_k,
        fallback_below=given.spec_fallback or 0.0,
        fallback_window=given.spec_fallback_window or DEFAULT_FALLBACK_WINDOW,
        fail_pass=given.fail_pass,
        device=given.device,
        prefix_cache=bool(given.prefix_cache),
        dump_logits=given.dump_logits,
    )


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are refusals: one line, no usage text."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"command line: {message}; `{PROGRAM} --help` lists the flags")


class _Once(argparse.Action):
    """Store a value, and refuse a flag that is given twice: the first would be ignored."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _flag: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "given twice; give it once")
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(PROGRAM, description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("-m", dest="model", metavar="DIR|FILE.q4nx", type=_path, action=_Once, required=True, help="the container")
    add("-p", dest="port", metavar="PORT", type=_whole(0, 65535), action=_Once, help=f"{DEFAULT_PORT}; 0 = any free port")
    add("--host", metavar="ADDRESS", type=_word, action=_Once, help=f"address to listen on ({DEFAULT_HOST})")
    add("--alias", metavar="NAME", type=_word, action=_Once, help="name of the model in answers (the container's directory)")
    add("--backend", choices=["host", "npu"], action=_Once, help="where the model runs (host); npu is a simulated device")
    add("--device", metavar="PATH", type=_path, action=_Once, help="what the simulated device opens and submits to")
    add("--spec-lookup", metavar="K", type=_whole(0), action=_Once, help="draft up to K tokens by prompt lookup (0 = off)")
    add("--spec-draft", metavar="DIR", type=_path, action=_Once, help="draft with a DFlash pack")
    add("--spec-draft-k", metavar="K", type=_whole(1), action=_Once, help="draft up to K tokens (the pack's block size - 1)")
    add("--spec-fallback", metavar="X", type=_number, action=_Once, help="go on plainly under X tokens a round (0 = off)")
    add("--spec-fallback-window", metavar="N", type=_whole(1), action=_Once, help="rounds of that mean (3)")
    add("--prefix-cache", nargs=0, action=_Once, help="resume from what the last request left of a prompt")
    add("--dump-logits", metavar="DIR", type=_path, action=_Once, help="write each reply's logits to DIR/<response id>.npy")
    add("--fail-pass", metavar="N", type=_whole(1), action=_Once, help="for harnesses: the N-th pass after ready fails")
    return parser


def _refuse_combinations(given: argparse.Namespace) -> None:
    if given.backend == "npu" and given.device is None:
        raise Refusal("--backend=npu: the simulated device needs a path to open; add --device PATH, or leave it out for the host")
    if given.backend != "npu" and given.device is not None:
        raise Refusal(f"--device={given.device}: the host backend opens no device; add --backend npu, or leave it out")
    if given.spec_lookup and given.spec_draft is not None:
        both = f"--spec-lookup={given.spec_lookup} beside --spec-draft={given.spec_draft}"
        raise Refusal(f"{both}: a server has one drafter; give one of the two")
    if given.spec_draft_k is not None and given.spec_draft is None:
        raise Refusal(f"--spec-draft-k={given.spec_draft_k}: there is no pack to draft with; add --spec-draft or leave it out")
    if given.spec_fallback is not None and not given.spec_lookup and given.spec_draft is None:
        fix = "add --spec-lookup or --spec-draft, or leave it out"
        raise Refusal(f"--spec-fallback={given.spec_fallback:g}: there is no drafter to switch off; {fix}")
    if given.spec_fallback_window is not None and given.spec_fallback is None:
        fix = "add --spec-fallback or leave it out"
        raise Refusal(f"--spec-fallback-window={given.spec_fallback_window}: there is no rule to give a window to; {fix}")


def _path(value: str) -> Path:
    if not value:
        raise argparse.ArgumentTypeError("'' is not a path; give one")
    return Path(value)


def _word(value: str) -> str:
    if not re.fullmatch(r"[!-~]+", value):
        raise argparse.ArgumentTypeError(f"{value!r} is not one word of printable ASCII; give one")
    return value


def _whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    rule = f"a whole number of at least {lowest}" if highest is None else f"a whole number from {lowest} to {highest}"

    def read(value: str) -> int:
        is_whole = value.isascii() and value.isdecimal() and len(value) <= len(str(2**63))
        if not is_whole or int(value) < lowest or (highest is not None and int(value) > highest):
            raise argparse.ArgumentTypeError(f"{value!r} is not {rule}; give one")
        return int(value)

    return read


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of at least 0; give one")
    return number
