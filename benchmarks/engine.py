"""What the reference engine's model costs on this machine, and what its batch invariance costs. Run by hand:

    python -m benchmarks.engine [DIR] [--core-type Haswell --core-type Nehalem ...]

DIR is a container; without it, random weights of a tiny model. Times are medians on one BLAS thread. Invariance is
checked bit for bit with the machine's own kernels, then with those of each `--core-type` (OpenBLAS' names), each in a
process of its own; the exit code is 1 if any bit differs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forward_serve.container import Container, LayerWeights, Qwen3Config, Weights, open_container
from forward_serve.products import HOST_WIDTH, HostProducts
from forward_serve.qwen3 import Qwen3Base

Rows = NDArray[np.float32]

MODULE = "benchmarks.engine"
NUM_REPEATS = 50
CHECKED_POSITIONS = (20, 63, 64, 65, 127, 128, 140)  # around the multiples that keys are padded to
RANDOM_CONFIG = Qwen3Config(
    vocab_size=288,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=1024,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
)


class GemmProducts(HostProducts):
    """Linear maps as plain matrix products: the yardstick, not batch-invariant."""

    def linear(self, rows: Rows, weight: Rows) -> Rows:
        """Return rows @ weight.T."""
        product: Rows = rows @ weight.T
        return product


def main(argv: Sequence[str]) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Cost and batch invariance of the engine.")
    parser.add_argument("container", nargs="?", type=Path, help="a container directory; default: random weights")
    parser.add_argument("--core-type", action="append", default=[], help="repeat the invariance check with its kernels")
    parser.add_argument("--only-invariance", action="store_true", help="print the invariance line alone")
    arguments = parser.parse_args(argv)
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # it counts only before numpy is imported
        return run_again(list(argv), OPENBLAS_NUM_THREADS="1")
    container = open_container(arguments.container) if arguments.container else random_container(RANDOM_CONFIG)
    if not arguments.only_invariance:
        print_costs(container, arguments.container)
    num_differing, num_checked = count_differing_rows(container)
    core_type = os.environ.get("OPENBLAS_CORETYPE", "the machine's own")
    print(f"invariance, core type {core_type}: {num_differing} of {num_checked} rows differ", flush=True)
    directory = [str(arguments.container)] if arguments.container else []
    codes = [
        # The verbose line on stderr names the kernels that OpenBLAS really took for a name.
        run_again([*directory, "--only-invariance"], OPENBLAS_CORETYPE=name, OPENBLAS_VERBOSE="2")
        for name in arguments.core_type
    ]
    return max([int(num_differing > 0), *codes])


def run_again(argv: Sequence[str], **environment: str) -> int:
    """Run this script in a process of its own with `environment` added, and return its exit code."""
    return subprocess.run([sys.executable, "-m", MODULE, *argv], env=os.environ | environment, check=False).returncode


def print_costs(container: Container, directory: Path | None) -> None:
    """Print one table: loading, prefill, plain steps and full passes at several contexts, beside plain gemm."""
    config = container.config
    print(
        f"L={config.num_hidden_layers} H={config.hidden_size} I={config.intermediate_size} V={config.vocab_size} "
        f"NH={config.num_attention_heads} NKV={config.num_key_value_heads} D={config.head_dim}, {HOST_WIDTH} rows a full pass"
    )
    print(f"{'':34}{'invariant':>12}{'plain gemm':>12}   ms, median of {NUM_REPEATS}")
    if directory is not None:
        print_row("open the container", [median_ms(lambda: open_container(directory))])
    print_row("build the base", [median_ms(lambda: Qwen3Base(container, HostProducts()))])
    bases = [Qwen3Base(container, HostProducts()), Qwen3Base(container, GemmProducts())]
    num_ids = min(128, config.max_position_embeddings)
    print_row(f"prefill of {num_ids}, per token", [prefill_ms(base, num_ids) for base in bases])
    for context in (16, 128, 512, 1000):
        if context + HOST_WIDTH <= config.max_position_embeddings:
            print_row(f"plain step at {context}", [pass_ms(base, context, 1) for base in bases])
            print_row(f"{HOST_WIDTH}-row pass at {context}", [pass_ms(base, context, HOST_WIDTH) for base in bases])


def print_row(label: str, times_ms: Sequence[float]) -> None:
    """Print one line of the table."""
    print(f"{label:34}" + "".join(f"{time_ms:12.3f}" for time_ms in times_ms), flush=True)


def prefill_ms(base: Qwen3Base, num_ids: int) -> float:
    """Return milliseconds a token of a prefill from position 0."""

    def prefill() -> None:
        base.reset()
        base.prefill([0] * num_ids)

    return median_ms(prefill) / num_ids


def pass_ms(base: Qwen3Base, context: int, num_rows: int) -> float:
    """Return milliseconds of a pass of `num_rows` at position `context`."""

    def run_pass() -> None:
        base.forward([0] * num_rows)
        base.truncate(context)

    base.reset()
    base.prefill([0] * context)
    return median_ms(run_pass)


def median_ms(work: Callable[[], object]) -> float:
    """Return the median of `NUM_REPEATS` runs after one that is not counted."""
    work()
    times_ms = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        work()
        times_ms.append(1000 * (time.perf_counter() - start))
    return statistics.median(times_ms)


def count_differing_rows(container: Container) -> tuple[int, int]:
    """Return (rows that differ in any bit from the same token alone, rows compared) over all widths and offsets."""
    base = Qwen3Base(container, HostProducts())
    positions = [position for position in CHECKED_POSITIONS if position < container.config.max_position_embeddings]
    ids = np.random.default_rng(0).integers(0, container.vocab_bound, max(positions) + 1).tolist()
    alone = [base.forward([token]).tobytes() for token in ids]
    num_differing = num_checked = 0
    for position in reversed(positions):  # downwards, so that the cache always holds what stands before a pass
        for width in range(1, base.width + 1):
            for offset in range(min(width, position + 1)):
                base.truncate(position - offset)
                rows = base.forward(ids[position - offset : position + 1] + [0] * (width - offset - 1))
                num_differing += rows[offset].tobytes() != alone[position]
                num_checked += 1
                base.truncate(position + 1)
    return num_differing, num_checked


def random_container(config: Qwen3Config) -> Container:
    """Return a container of random weights and no tokenizer."""
    rng = np.random.default_rng(0)

    def weight(num_rows: int, num_columns: int) -> Rows:
        return rng.standard_normal((num_rows, num_columns), dtype=np.float32) * np.float32(num_columns**-0.5)

    def norm(size: int) -> Rows:
        return np.ones(size, np.float32)

    hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    query_size = config.num_attention_heads * head_dim
    layers = tuple(
        LayerWeights(
            input_norm=norm(hidden),
            post_attention_norm=norm(hidden),
            query_norm=norm(head_dim),
            key_norm=norm(head_dim),
            qkv=weight(query_size + 2 * config.num_key_value_heads * head_dim, hidden),
            output=weight(hidden, query_size),
            gate_up=weight(2 * inner, hidden),
            down=weight(hidden, inner),
        )
        for _ in range(config.num_hidden_layers)
    )
    weights = Weights(weight(config.vocab_size, hidden), norm(hidden), weight(config.vocab_size, hidden), layers)
    return Container(Path(), config, weights, "{}", {}, None, frozenset(), vocab_bound=config.vocab_size)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
