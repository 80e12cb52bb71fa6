"""What speculation costs and saves on the fabricated models, per pass and per token, in one run. Run by hand:

    python -m benchmarks.speculation [--repeats N]

Passes are timed alone, in turn, so that a change of the machine's speed meets all of them: a plain step, verify passes of 1, 4 and
15 drafts beside one that is filled to all rows (what padding would cost), a prefill, and each drafter's proposal. Then whole replies:
every stream plain, with drafts that all land, that land in part and of which none does. Milliseconds, medians, one BLAS thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forward_serve.container import open_container
from forward_serve.decoding.dflash import DFlashHead, open_pack
from forward_serve.decoding.interfaces import Head
from forward_serve.decoding.lookup import PromptLookupHead
from forward_serve.decoding.loop import Options, run
from forward_serve.decoding.stats import Stats
from forward_serve.products import HostProducts
from forward_serve.qwen3 import Qwen3Base
from forward_serve.taps import TapSink
from harness.fabricate.store import fabricate
from harness.records.fixture import Fixture, Stream

RECIPE = Path(__file__).parents[1] / "fixtures" / "recipes" / "tiny.toml"
MODULE = "benchmarks.speculation"
NUM_DRAFTS = (1, 4, 15)
LOOKUP_K = 4
REPLY = 24  # tokens that a stream prescribes

Timed = Mapping[str, Callable[[], object]]


def main(argv: Sequence[str]) -> int:
    """Print both tables and return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="What speculation costs and saves.")
    parser.add_argument("--repeats", type=int, default=200, help="of each pass; whole replies take a tenth of them")
    repeats = parser.parse_args(argv).repeats
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # it counts only before numpy is imported
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        return subprocess.run([sys.executable, "-m", MODULE, *argv], env=environment, check=False).returncode
    fixture = fabricate(RECIPE)
    print_passes(fixture, repeats)
    print_replies(fixture, max(repeats // 10, 3))
    return 0


def print_passes(fixture: Fixture, repeats: int) -> None:
    """Print what one pass, one proposal and one token of a prefill take, beside a plain step."""
    stream = fixture.stream("main-1")
    base = Qwen3Base(open_container(Path(fixture.model)), HostProducts())
    context = len(stream.prompt_ids)
    base.prefill(stream.prompt_ids)

    def passed(num_rows: int) -> Callable[[], None]:
        def work() -> None:
            base.forward([stream.reply_ids[0]] * num_rows)
            base.truncate(context)

        return work

    other = Qwen3Base(open_container(Path(fixture.model)), HostProducts())

    def prefilled() -> None:
        other.reset()
        other.prefill(stream.prompt_ids)

    timed: dict[str, Callable[[], object]] = {"plain step, 1 row": passed(1)}
    timed |= {f"verify pass of {drafts} drafts, {drafts + 1} rows": passed(drafts + 1) for drafts in NUM_DRAFTS}
    timed["a pass filled to 16 rows"] = passed(base.width)
    timed |= {f"proposal of {name}": proposing(fixture, name, stream) for name in ("mixed", "mixed2", "flip2")}
    timed["proposal of lookup, a hit"] = looking_up(fixture.stream("hit-1"))
    timed[f"prefill of {context} tokens"] = prefilled
    times = medians(timed, repeats)
    step = times["plain step, 1 row"]
    print(f"context {context}, {len(fixture.packs)} packs; ms, median of {repeats}; x = plain steps")
    for name, time_ms in times.items():
        print(f"{name:40}{time_ms:9.3f}{time_ms / step:8.2f} x")
    print(f"{'prefill, a token':40}{times[f'prefill of {context} tokens'] / context:9.3f}\n")


def proposing(fixture: Fixture, name: str, stream: Stream) -> Callable[[], object]:
    """Return what makes one proposal of a pack behind a prompt, the context of the prompt made already."""
    base, head = with_pack(fixture, name)
    head.begin(stream.prompt_ids)
    base.prefill(stream.prompt_ids)
    return lambda: head.propose(stream.reply_ids[0], len(stream.prompt_ids), base.width - 1, None)


def looking_up(stream: Stream) -> Callable[[], object]:
    """Return what makes one proposal of prompt lookup that finds something."""
    head = PromptLookupHead()
    head.begin(stream.prompt_ids)
    assert head.propose(stream.reply_ids[0], len(stream.prompt_ids), LOOKUP_K, None)
    return lambda: head.propose(stream.reply_ids[0], len(stream.prompt_ids), LOOKUP_K, None)


def print_replies(fixture: Fixture, repeats: int) -> None:
    """Print what a counted token of the decoding takes, by what drafts and how much of it lands, beside plain."""
    plain = Qwen3Base(open_container(Path(fixture.model)), HostProducts())
    arms: dict[str, tuple[Qwen3Base, Head | None, int, str]] = {
        "plain": (plain, None, 0, ""),
        "pack, all lands": (*with_pack(fixture, "always"), 7, ""),
        "pack, some lands": (*with_pack(fixture, "mixed"), 7, ""),
        "pack, nothing lands": (*with_pack(fixture, "never"), 7, ""),
        "pack of generation 2, some lands": (*with_pack(fixture, "mixed2"), 7, ""),
        "lookup, hits": (plain, PromptLookupHead(), LOOKUP_K, "hit"),
        "lookup, decoys: nothing lands": (plain, PromptLookupHead(), LOOKUP_K, "decoy"),
        "lookup, misses: nothing drafted": (plain, PromptLookupHead(), LOOKUP_K, "miss"),
    }
    counted: dict[str, list[Stats]] = {}
    streams = {name: fixture.of_role(role) if role else fixture.streams for name, (*_, role) in arms.items()}

    def replying(name: str) -> Callable[[], None]:
        base, head, k, _ = arms[name]

        def work() -> None:
            counted[name] = []
            for stream in streams[name]:
                base.reset()
                counted[name].append(run(base, head, stream.prompt_ids, Options(k=k, max_tokens=REPLY)))

        return work

    per_token: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):  # in turn: what the machine does at a moment meets all arms
        for name in arms:
            replying(name)()
            replies = counted[name]
            per_token[name].append(1000 * sum(each.decode_seconds for each in replies) / sum(each.tokens for each in replies))
    plain_ms = statistics.median(per_token["plain"])
    print(f"decoding whole replies of {REPLY} tokens, prefill apart; ms a token, median of {repeats}; x = plain")
    print(f"{'':40}{'ms':>9}{'':10}{'tokens':>8}{'passes':>8}{'drafted':>9}{'accepted':>9}")
    for name, times in per_token.items():
        replies, time_ms = counted[name], statistics.median(times)
        counts = (sum(getattr(each, field) for each in replies) for field in ("tokens", "passes", "drafted", "accepted"))
        tokens, passes, drafted, accepted = counts
        print(f"{name:40}{time_ms:9.3f}{time_ms / plain_ms:8.2f} x{tokens:8}{passes:8}{drafted:9}{accepted:9}")


def with_pack(fixture: Fixture, name: str) -> tuple[Qwen3Base, DFlashHead]:
    """Return a base that keeps its taps for a pack's head, and that head."""
    container = open_container(Path(fixture.model))
    pack = open_pack(Path(fixture.packs[name]))
    config = container.config
    taps = TapSink(pack.config.target_layer_ids, config.hidden_size, config.max_position_embeddings)
    base = Qwen3Base(container, HostProducts(), tap_sink=taps)
    return base, DFlashHead(pack, base, taps)


def medians(timed: Timed, repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each, all run once in each turn."""
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats + 1):
        for name, work in timed.items():
            start = time.perf_counter()
            work()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(each[1:]) for name, each in times.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
