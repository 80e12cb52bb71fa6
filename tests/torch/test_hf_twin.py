"""The Hugging Face twins under transformers: each says the prescribed replies, and on every prompt of the plan what float64 says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.fabricate.store import fabricate
from harness.fabricate.twins import twin
from harness.oracle.container64 import read_container
from harness.oracle.packs import FLOAT32_MARGIN
from harness.oracle.qwen3_64 import Qwen3
from harness.oracle.speakers import Speaker
from harness.plans.build import build_plan
from harness.plans.registry import SLICES
from harness.records.expectation import Ids
from harness.records.fixture import Fixture
from harness.records.plan import Tier

RECIPES = Path(__file__).parents[2] / "fixtures" / "recipes"
MOST_TOKENS = 24  # of a reply beyond the streams


def name_of(fixture: Fixture) -> str:
    return fixture.recipe.partition("@")[0]


@pytest.fixture(scope="module", params=sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def fixture(request: pytest.FixtureRequest) -> Fixture:
    return fabricate(request.param)


@pytest.fixture(scope="module")
def model(fixture: Fixture) -> Any:
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra `torch` is not installed")
    transformers.logging.disable_progress_bar()
    return transformers.AutoModelForCausalLM.from_pretrained(
        twin(fixture, f"{name_of(fixture)}+hf"), dtype=torch.float32, attn_implementation="eager"
    ).eval()


def said(model: Any, prompt: Ids, num_tokens: int) -> Ids:
    import torch  # noqa: PLC0415 - an extra: the fixture skips without it

    ids = torch.tensor([prompt])
    with torch.inference_mode():
        whole = model.generate(
            ids,
            do_sample=False,
            max_new_tokens=num_tokens,
            attention_mask=torch.ones_like(ids),
            eos_token_id=None,
            pad_token_id=0,
        )
    return tuple(whole[0, len(prompt) :].tolist())


def test_transformers_says_every_prescribed_reply(fixture: Fixture, model: Any) -> None:
    assert type(model).__name__ == "Qwen3ForCausalLM"
    got = {stream.name: said(model, stream.prompt_ids, len(stream.reply_ids)) for stream in fixture.streams}
    assert got == {stream.name: stream.reply_ids for stream in fixture.streams}


def prompts_of_the_plan(model: str) -> Iterator[tuple[Ids, int]]:
    """Yield each prompt that the gate asks of a model or its twins, once, with the largest budget that it is asked at."""
    budgets: dict[Ids, int] = {}
    for start in build_plan(fabricate(RECIPES / "tiny.toml"), Tier.GATE, SLICES, tuple(SLICES)).starts:
        for request in start.requests if start.model.partition("+")[0] == model else ():
            if request.prompt_ids and request.is_greedy and request.expect == 200:
                budgets[request.prompt_ids] = max(budgets.get(request.prompt_ids, 0), min(request.max_tokens, MOST_TOKENS))
    yield from budgets.items()


def test_transformers_says_what_a_float64_forward_says_on_every_prompt_of_the_plan(fixture: Fixture, model: Any) -> None:
    asked = list(prompts_of_the_plan(name_of(fixture)))
    if not asked:
        pytest.skip("the gate's plan asks nothing of this recipe's model")
    speaker = Speaker(lambda: Qwen3(read_container(Path(fixture.model))))
    got = {prompt: said(model, prompt, size) for prompt, size in asked}
    speaker.guess([prompt + ids for prompt, ids in got.items()])
    wrong, num_certain = [], 0
    for (prompt, size), choices in zip(asked, speaker.say(asked), strict=True):
        for index, choice in enumerate(choices[:size]):
            if choice.margin < FLOAT32_MARGIN:
                break  # from here on either may be right
            num_certain += 1
            if got[prompt][index] != choice.token:
                wrong.append((prompt, index, choice.token, got[prompt][index]))
                break
    assert wrong == []
    assert num_certain > 5 * len(asked)
