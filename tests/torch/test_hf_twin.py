"""The Hugging Face twin under transformers: its greedy replies are the prescribed ones, token by token."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fabricate.store import fabricate
from harness.fabricate.twins import twin
from harness.records.fixture import Fixture

TINY = Path(__file__).parents[2] / "fixtures" / "recipes" / "tiny.toml"


@pytest.fixture(scope="module")
def tiny() -> Fixture:
    return fabricate(TINY)


def test_transformers_says_every_prescribed_reply(tiny: Fixture) -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra `torch` is not installed")
    folder = twin(tiny, f"{tiny.recipe.partition('@')[0]}+hf")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert type(model).__name__ == "Qwen3ForCausalLM"
    got = {}
    for stream in tiny.streams:
        prompt = torch.tensor([stream.prompt_ids])
        ids = model.generate(
            prompt, do_sample=False, max_new_tokens=len(stream.reply_ids), attention_mask=torch.ones_like(prompt)
        )
        got[stream.name] = tuple(ids[0, len(stream.prompt_ids) :].tolist())
    assert got == {stream.name: stream.reply_ids for stream in tiny.streams}
