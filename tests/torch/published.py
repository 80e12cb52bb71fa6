"""The published `dflash` package at work: its own model, loader, cache and generation loop, watched from outside.

Only the target's verdict is scripted, so that a reply has full, partial and no accepts with lively random weights; all that a
drafter reads of a target (streams, embedding table, head) is real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from dflash.model import (  # type: ignore[import-not-found]
    DFlash2DraftModel,
    DFlashDraftModel,
    dflash_generate,
)
from transformers import Qwen3ForCausalLM  # type: ignore[import-not-found]

from tests.forward_serve.decoding.dflash.golden import Rounds
from tests.forward_serve.decoding.dflash.session import ANCHOR, PROMPT

VERDICTS = (2, 0, 5, 1, 4, 3)  # accepted drafts of each round


class ScriptedTarget:
    """A Qwen3 target whose logits accept so many drafts of each pass; it notes what the passes leave behind."""

    def __init__(self, directory: Path, verdicts: Sequence[int]) -> None:
        self._model = Qwen3ForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        self._verdicts = verdicts
        self.config = self._model.config
        self.device = self._model.device
        self.lm_head = self._model.lm_head
        self.passes: list[list[int]] = []
        self.streams: list[list[Any]] = []  # of each pass, the stream after each layer but the last [rows, H]

    def get_input_embeddings(self) -> Any:
        return self._model.get_input_embeddings()

    def __call__(self, input_ids: Any, **arguments: Any) -> Any:
        output = self._model(input_ids, **arguments)
        ids = input_ids[0].tolist()
        said = [ANCHOR] if not self.passes else self._verdict(ids, len(self.passes) - 1)
        self.passes.append(ids)
        self.streams.append([stream[0].numpy() for stream in output.hidden_states[1:-1]])
        output.logits = torch.nn.functional.one_hot(torch.tensor([said]), self.config.vocab_size).float()
        return output

    def _verdict(self, ids: list[int], index: int) -> list[int]:
        """Return a next token for each row: the drafts that are accepted, then another than was drafted."""
        num_accepted = min(self._verdicts[index] if index < len(self._verdicts) else 0, len(ids) - 1)
        drafts = ids[1:]
        refused = [(token + 1) % self.config.vocab_size for token in [*drafts[num_accepted:], ANCHOR]]
        return [*drafts[:num_accepted], *refused]


class Watch:
    """Notes what goes into a draft model and what comes out of it."""

    def __init__(self, model: Any) -> None:
        self.taps: list[Any] = []  # of each round, the rows that were new [n, T H]
        self.starts: list[int] = []
        self.hidden: list[Any] = []  # [B, H]
        self.candidates: list[Any] = []  # [B - 1, k]
        self.drafts: list[Any] = []  # [B - 1]
        self._block_size = model.block_size
        model.register_forward_hook(self._forward, with_kwargs=True)
        if isinstance(model, DFlash2DraftModel):
            self._wrap(model, "propose", lambda result: (result[0], result[1]))
        else:
            self._wrap(model, "compute_logits", lambda result: (result.argmax(dim=-1), result[..., :0].long()))

    def _forward(self, _model: Any, _arguments: Any, named: dict[str, Any], output: Any) -> None:
        self.taps.append(named["target_hidden"][0].numpy())
        self.starts.append(int(named["position_ids"][0, -output.shape[1]]))
        self.hidden.append(output[0].numpy())

    def _wrap(self, model: Any, method: str, drafts_and_candidates: Any) -> None:
        inner = getattr(model, method)

        def wrapped(*arguments: Any) -> Any:
            result = inner(*arguments)
            drafts, candidates = drafts_and_candidates(result)
            self.drafts.append(drafts[0].numpy())
            self.candidates.append(np.sort(candidates[0].numpy(), axis=-1))
            return result

        setattr(model, method, wrapped)


def load_pack(directory: Path) -> Any:
    """Load a pack with the package's own class and loader; every tensor must find its place."""
    architectures = json.loads((directory / "config.json").read_bytes())["architectures"]
    kind = DFlash2DraftModel if architectures == ["DFlash2DraftModel"] else DFlashDraftModel
    model, report = kind.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
    assert not any(report.values()), report
    return model.eval()


def by_package(directory: Path, target_directory: Path) -> Rounds:
    """Generate a reply with the package's loop, and return its first rounds, one for each of VERDICTS."""
    model, target = load_pack(directory), ScriptedTarget(target_directory, VERDICTS)
    watch, num_rounds, size = Watch(model), len(VERDICTS), model.block_size
    num_tokens = sum(VERDICTS) + num_rounds + 2 * size  # so many that no block of these rounds is cut short
    dflash_generate(model, target, torch.tensor([PROMPT]), num_tokens, None)

    taps = [np.stack([streams[layer] for layer in model.target_layer_ids], axis=1) for streams in target.streams]
    passes = target.passes[1 : num_rounds + 1]
    accepted = [min(verdict, size - 1) for verdict in VERDICTS]
    kept = [taps[0], *[rows[: num + 1] for rows, num in zip(taps[1:], accepted, strict=False)]]
    for want, got in zip(kept, watch.taps, strict=False):
        np.testing.assert_array_equal(got, want.reshape(len(want), -1))
    assert [ids[1:] for ids in passes] == [drafts.tolist() for drafts in watch.drafts[:num_rounds]]
    assert {len(ids) for ids in passes} == {size}
    return Rounds(
        prompt_taps=taps[0],
        starts=np.array(watch.starts[:num_rounds]),
        anchors=np.array([ids[0] for ids in passes]),
        hidden=np.array(watch.hidden[:num_rounds]),
        candidates=np.array(watch.candidates[:num_rounds]),
        drafts=np.array(watch.drafts[:num_rounds]),
        accepted=np.array(accepted),
        pass_taps=np.array(taps[1 : num_rounds + 1]),
    )
