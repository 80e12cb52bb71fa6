"""From flags to a served model: container, drafter, warm-up. The one module that knows every room of the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from forward_serve.container import Container, open_container
from forward_serve.decoding.interfaces import Head
from forward_serve.decoding.lookup import PromptLookupHead
from forward_serve.errors import Refusal
from forward_serve.products import HostProducts, Products
from forward_serve.qwen3 import Qwen3Base
from forward_serve.serving.constraint import Grammars
from forward_serve.serving.engine import Served
from forward_serve.serving.fault import PassFault
from forward_serve.serving.fields import ModelFacts
from forward_serve.serving.flags import Flags
from forward_serve.serving.tokenizer import Tokenizer
from forward_serve.taps import TapSink

HOST = "backend=host"
DEVICE = "backend=npu device=simulated"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is ready to serve."""

    served: Served
    facts: ModelFacts
    ready_facts: str  # the ready line's part that follows the port


def load(flags: Flags) -> Loaded:
    """Open everything, check it against each other and run one pass. Raises Refusal naming file, value, rule and fix."""
    products = HostProducts() if flags.device is None else _simulated(flags.device)
    container = open_container(flags.model)
    tokenizer = Tokenizer(container.tokenizer_json, container.tokenizer_config, container.chat_template)
    grammars = Grammars(container.tokenizer_json, tokenizer.special_ids, container.vocab_bound, container.end_ids)
    base, head, wanted_k = _model(flags, container, products)
    k = min(wanted_k, base.width - 1)
    _warm_up(base)
    if flags.fail_pass is not None:
        base.pass_hook = PassFault(flags.fail_pass)
    served = Served(
        base=base,
        head=head,
        token_bytes=tokenizer.token_bytes,
        end_tokens=container.end_ids,
        grammars=grammars,
        k=k,
        fallback_below=flags.fallback_below,
        fallback_window=flags.fallback_window,
        caches_prefixes=flags.prefix_cache,
        dump_directory=_dump_directory(flags),
    )
    facts = ModelFacts(
        alias=flags.alias or _alias_of(container.directory),
        vocab_bound=base.vocab_bound,
        context_length=container.config.max_position_embeddings,
        encode=tokenizer.encode,
        encode_chat=tokenizer.encode_chat,
        check_grammar=grammars.check,
    )
    capped = f" capped-from={wanted_k}" if k < wanted_k else ""
    backend = HOST if flags.device is None else DEVICE
    ready_facts = f"{backend} drafter={served.drafter} k={k}{capped} width={base.width} alias={facts.alias}"
    return Loaded(served, facts, ready_facts + _options_said(flags))


def _dump_directory(flags: Flags) -> Path | None:
    if flags.dump_logits is None:
        return None
    from forward_serve.serving.dump import prepare_directory  # noqa: PLC0415  (no other server needs it)

    return prepare_directory(flags.dump_logits)


def _options_said(flags: Flags) -> str:
    """The end of the ready line: what was asked for beside a model and a drafter."""
    said = ""
    if flags.prefix_cache:
        said += " prefix-cache=on"
    if flags.prefix_cache and flags.draft is not None:  # chats begin alike, and what is resumed has no taps
        said += " drafts=once-per-chat"
    if flags.dump_logits is not None:
        said += " dump-logits=on"
    if flags.fail_pass is not None:
        said += f" fail-pass={flags.fail_pass}"
    return said


def _simulated(path: Path) -> Products:
    from forward_serve.device import SimulatedDevice  # noqa: PLC0415  (a server on the host never needs it)

    return SimulatedDevice.open(path)


def _model(flags: Flags, container: Container, products: Products) -> tuple[Qwen3Base, Head | None, int]:
    """Return the base, its drafter and the k that is asked for."""
    if flags.draft is not None:
        return _model_with_pack(flags, flags.draft, container, products)
    head = PromptLookupHead() if flags.lookup_k else None
    return Qwen3Base(container, products), head, flags.lookup_k


def _model_with_pack(flags: Flags, directory: Path, container: Container, products: Products) -> tuple[Qwen3Base, Head, int]:
    from forward_serve.decoding.dflash import DFlashHead, open_pack  # noqa: PLC0415  (10 ms that no other server pays)

    config = container.config
    pack = open_pack(directory)
    pack.check_against(config)
    taps = TapSink(pack.config.target_layer_ids, config.hidden_size, config.max_position_embeddings)
    base = Qwen3Base(container, products, tap_sink=taps)
    return base, DFlashHead(pack, base, taps), _draft_k(flags, pack.block_size)


def _draft_k(flags: Flags, block_size: int) -> int:
    most = block_size - 1
    if flags.draft_k is None:
        return most
    if flags.draft_k > most:
        rule = f"a block of {block_size} slots drafts {most} tokens at most"
        raise Refusal(f"--spec-draft-k={flags.draft_k}: {rule} ({flags.draft}); ask for {most} or less")
    return flags.draft_k


def _warm_up(base: Qwen3Base) -> None:
    """Run one pass, so that no request pays for first touches."""
    base.prefill([0])
    base.reset()


def _alias_of(directory: Path) -> str:
    """The container's directory as one word of printable ASCII."""
    return re.sub(r"[^!-~]+", "-", directory.resolve().name) or "model"
