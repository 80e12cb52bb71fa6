"""llama.cpp's own server out of the xllamacpp wheel, behind the command line of the `llama-server` binary.

    python -m harness.subjects.families.llama_server --model model.gguf --port 0 --spec-type ngram-simple

It takes those of the binary's flags that a description uses, under the binary's names, so that one set of launch lines serves both. It
binds to loopback alone, says on stderr which port it got, and serves until SIGTERM. Exit status 2: a flag or a file is wrong, or the
wheel is missing. It imports nothing of the harness.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HOST = "127.0.0.1"
REFUSED = 2
NGRAM_TYPES = ("simple", "map-k", "map-k4v")  # of --spec-ngram-<type>-size-n, -size-m, -min-hits
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; every flag has the binary's name and, but for --port, its default."""
    made = argparse.ArgumentParser(prog="llama_server", allow_abbrev=False)
    made.add_argument("--model", type=Path, required=True)
    made.add_argument("--host", choices=[HOST], default=HOST)
    made.add_argument("--port", type=int, default=0)
    made.add_argument("--ctx-size", type=int, default=0)  # 0 = the model's own
    made.add_argument("--parallel", type=int, default=1)
    made.add_argument("--n-gpu-layers", type=int, default=-1)
    made.add_argument("--threads", type=int, default=-1)
    made.add_argument("--threads-batch", type=int, default=-1)
    made.add_argument("--threads-http", type=int, default=-1)
    made.add_argument("--fit", choices=["on", "off"], default="on")
    made.add_argument("--flash-attn", choices=["on", "off", "auto"], default="auto")
    made.add_argument("--cache-type-k", choices=CACHE_TYPES, default="f16")
    made.add_argument("--cache-type-v", choices=CACHE_TYPES, default="f16")
    made.add_argument("--cache-ram", type=int, default=8192)  # MiB
    made.add_argument("--log-verbosity", type=int, default=3)
    for name in ("--no-warmup", "--no-cache-prompt", "--metrics"):
        made.add_argument(name, action="store_true")
    _add_drafter_flags(made)
    return made


def _add_drafter_flags(made: argparse.ArgumentParser) -> None:
    made.add_argument("--spec-type", type=_words, default=())
    for name in NGRAM_TYPES:
        made.add_argument(f"--spec-ngram-{name}-size-n", type=int, default=12)
        made.add_argument(f"--spec-ngram-{name}-size-m", type=int, default=48)
        made.add_argument(f"--spec-ngram-{name}-min-hits", type=int, default=1)
    made.add_argument("--spec-ngram-mod-n-match", type=int, default=24)
    made.add_argument("--spec-ngram-mod-n-min", type=int, default=48)
    made.add_argument("--spec-ngram-mod-n-max", type=int, default=64)
    made.add_argument("--spec-draft-model", type=Path)
    made.add_argument("--spec-draft-n-max", type=int, default=3)
    made.add_argument("--spec-draft-n-min", type=int, default=0)
    made.add_argument("--spec-draft-p-min", type=float, default=0.0)
    made.add_argument("--spec-draft-ngl", type=int, default=-1)
    made.add_argument("--spec-draft-type-k", choices=CACHE_TYPES, default="f16")
    made.add_argument("--spec-draft-type-v", choices=CACHE_TYPES, default="f16")
    made.add_argument("--spec-draft-threads", type=int, default=-1)


def common_params(llama: Any, flags: argparse.Namespace) -> Any:
    """Return the server's parameters for these flags. `llama` is the xllamacpp module. Raises ValueError for an unknown drafter."""
    params = llama.CommonParams()
    params.model.path = str(flags.model)
    params.hostnames = [flags.host]
    params.port = flags.port
    params.n_ctx = flags.ctx_size
    params.n_parallel = flags.parallel
    params.n_gpu_layers = flags.n_gpu_layers
    params.fit_params = flags.fit == "on"
    params.warmup = not flags.no_warmup
    params.cache_prompt = not flags.no_cache_prompt
    params.cache_ram_mib = flags.cache_ram
    params.endpoint_metrics = flags.metrics
    params.verbosity = flags.log_verbosity
    params.n_threads_http = flags.threads_http
    params.cpuparams.n_threads = flags.threads
    params.cpuparams_batch.n_threads = flags.threads_batch
    attention = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[flags.flash_attn]
    params.flash_attn_type = getattr(llama.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{attention}")
    params.cache_type_k = _cache_type(llama, flags.cache_type_k)
    params.cache_type_v = _cache_type(llama, flags.cache_type_v)
    _set_drafters(llama, params.speculative, flags)
    return params


def _set_drafters(llama: Any, speculative: Any, flags: argparse.Namespace) -> None:
    known = llama.common_speculative_type
    speculative.types = [_drafter(known, name) for name in flags.spec_type]
    for name in NGRAM_TYPES:
        field = name.replace("-", "_")
        drafter = getattr(speculative, f"ngram_{field}")
        for part in ("size_n", "size_m", "min_hits"):
            setattr(drafter, part, getattr(flags, f"spec_ngram_{field}_{part}"))
    for part in ("n_match", "n_min", "n_max"):
        setattr(speculative.ngram_mod, part, getattr(flags, f"spec_ngram_mod_{part}"))
    draft = speculative.draft
    if flags.spec_draft_model is not None:
        draft.mparams.path = str(flags.spec_draft_model)
    draft.n_max, draft.n_min, draft.p_min = flags.spec_draft_n_max, flags.spec_draft_n_min, flags.spec_draft_p_min
    draft.n_gpu_layers = flags.spec_draft_ngl
    draft.cache_type_k = _cache_type(llama, flags.spec_draft_type_k)
    draft.cache_type_v = _cache_type(llama, flags.spec_draft_type_v)
    draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = flags.spec_draft_threads


def _drafter(known: Any, name: str) -> Any:
    prefix = "COMMON_SPECULATIVE_TYPE_"
    names = {one.removeprefix(prefix).lower().replace("_", "-"): one for one in dir(known) if one.startswith(prefix)}
    names.pop("count", None)  # the length of the enumeration
    if name not in names:
        raise ValueError(f"--spec-type {name}: no such drafter; use {', '.join(sorted(names))}")
    return getattr(known, names[name])


def _cache_type(llama: Any, name: str) -> Any:
    return getattr(llama.ggml_type, f"GGML_TYPE_{name.upper()}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word != "none")


def main(arguments: Sequence[str], load: Callable[[], Any]) -> int:
    """Serve until SIGTERM; return the exit status. `load` imports the wheel."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of its threads too: it is waited for below
    flags = parser().parse_args(arguments)
    for path in filter(None, (flags.model, flags.spec_draft_model)):
        if not path.is_file():
            return _refuse(f"--model {path}: is no file; give a GGUF")
    try:
        llama = load()
    except ImportError as error:
        return _refuse(f"the xllamacpp wheel is missing ({error}); pip install 'draftproof[llama]'")
    try:
        server = llama.Server(common_params(llama, flags))
    except (ValueError, RuntimeError) as error:
        return _refuse(f"{flags.model}: not served ({error})")
    sys.stderr.write(f"[ready] port={urlsplit(server.listening_address).port} drafters={','.join(flags.spec_type) or 'none'}\n")
    sys.stderr.flush()
    signal.sigwait({signal.SIGTERM})
    return 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"llama_server: {' '.join(message.split())}\n")
    return REFUSED


def _load() -> Any:
    import xllamacpp  # noqa: PLC0415 - loads a native library: not before the flags are known to be right

    return xllamacpp


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _load))
