"""The server around transformers' generate, with a stand-in for the model: its bodies, its answers, what it counts, what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.records.recording import Counts, Round
from harness.subjects.description import load_description
from harness.subjects.dialects import heard
from harness.subjects.families.completions import BadRequestError, checked
from harness.subjects.families.transformers_server import Generated, Model, Rounds, completion, main, parser

END = 5


class StandIn:
    """A model that says 1, 2, 3, ... as letters, and ends at END; of the ids, `kept` round by round came from drafts."""

    context = 12

    def __init__(self, kept: tuple[int, ...] = (2,)) -> None:
        self.kept = kept
        self.asked: list[Mapping[str, Any]] = []

    def ids_of(self, prompt: str | list[int]) -> list[int]:
        return prompt if isinstance(prompt, list) else [ord(one) - 97 for one in prompt]

    def text_of(self, ids: list[int]) -> str:
        return "".join(chr(97 + one) for one in ids)

    def is_end(self, token: int) -> bool:
        return token == END

    def generate(self, _prompt: list[int], budget: int, body: Mapping[str, Any]) -> Generated:
        self.asked.append(body)
        ends = budget if body.get("ignore_eos") else min(budget, END)
        rounds = Rounds([([9] * (one + 1), one) for one in self.kept])
        return Generated(list(range(1, ends + 1)), ["row"] * ends, rounds)

    def logprobs(self, ids: list[int], rows: list[str], num_top: int) -> dict[str, Any]:
        return {"tokens": ids, "rows": rows, "num_top": num_top}


def answered(model: StandIn | None = None, **body: Any) -> dict[str, Any]:
    stand_in: Any = model or StandIn()
    return completion(stand_in, checked({"prompt": "ab", "return_token_ids": True, **body}), "cmpl-1")


def choice(**body: Any) -> dict[str, Any]:
    (one,) = answered(**body)["choices"]
    return dict(one)


def test_an_answer_holds_text_ids_and_what_was_drafted_round_by_round() -> None:
    got = answered(max_tokens=3)
    assert got["choices"][0] == {
        "index": 0,
        "text": "bcd",
        "token_ids": [1, 2, 3],
        "finish_reason": "length",
        "stop_reason": None,
        "logprobs": None,
    }
    assert got["usage"] == {"prompt_tokens": 2, "completion_tokens": 3}
    assert got["assisted"] == {"rounds": 1, "drafted": 3, "accepted": 2, "per_round": [[[9, 9, 9], 2]]}


def test_ids_come_where_they_are_asked_for() -> None:
    assert "token_ids" not in choice(max_tokens=3, return_token_ids=False)


def test_an_answer_is_read_by_the_description_with_counts_and_rounds() -> None:
    got = heard(answered(max_tokens=3), load_description("transformers"))
    assert (got.reply.text, got.reply.ids, got.reply.prompt_tokens) == ("bcd", (1, 2, 3), 2)
    assert got.counts == Counts("spec", None, 1, 3, 2, None, 3, None, None, None)
    assert got.rounds == (Round((9, 9, 9), 2),)


def test_an_end_token_is_in_no_id_and_is_the_stop_reason() -> None:
    got = choice(max_tokens=9)
    assert (got["token_ids"], got["finish_reason"], got["stop_reason"]) == ([1, 2, 3, 4], "stop", END)
    on = choice(max_tokens=6, ignore_eos=True)
    assert (on["token_ids"], on["finish_reason"], on["stop_reason"]) == ([1, 2, 3, 4, 5, 6], "length", None)


def test_text_ends_before_the_first_stop_and_the_ids_are_all_that_came() -> None:
    got = choice(max_tokens=4, stop=["d", "cd"])
    assert (got["text"], got["finish_reason"], got["stop_reason"], got["token_ids"]) == ("b", "stop", "cd", [1, 2, 3, 4])


def test_the_context_bounds_the_budget_and_a_prompt_that_fills_it_is_refused() -> None:
    assert choice(prompt=[0] * 10, max_tokens=9)["token_ids"] == [1, 2]
    with pytest.raises(BadRequestError, match="prompt: 12 tokens, the context holds 12; send fewer"):
        choice(prompt=[0] * 12)


def test_scores_are_those_of_the_tokens_that_are_shown() -> None:
    assert choice(max_tokens=9, logprobs=2)["logprobs"] == {"tokens": [1, 2, 3, 4], "rows": ["row"] * 4, "num_top": 2}


class Generator:
    """A candidate generator as transformers has them."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def get_candidates(self, input_ids: Any, **_others: Any) -> tuple[Any, None]:
        proposed = [7, 8] if input_ids.shape[1] < 4 else []
        return np.array([[*input_ids[0], *proposed]]), None

    def update_candidate_strategy(self, *told: Any) -> None:
        self.told.append(told)


def test_rounds_are_written_down_and_the_generator_is_told_as_before() -> None:
    rounds, generator = Rounds(), Generator()
    assert rounds.watch(generator) is generator
    for size, kept in ((2, 1), (3, 2), (4, 0)):
        candidates, _ = generator.get_candidates(np.ones((1, size), dtype=int), model_kwargs={})
        assert candidates.shape[1] == size + (2 if size < 4 else 0)
        generator.update_candidate_strategy("ids", "scores", kept)
    assert rounds.listed == [([7, 8], 1), ([7, 8], 2)]  # a pass without candidates is no round
    assert [told[2] for told in generator.told] == [1, 2, 0]


def test_the_settings_of_a_model_are_those_of_the_flags() -> None:
    loaded: list[Any] = []

    def from_pretrained(folder: Path, **_dtype: Any) -> Any:
        config = SimpleNamespace(max_position_embeddings=64, eos_token_id=[3, 4] if folder == Path("m") else None)
        model = SimpleNamespace(config=config, generation_config=SimpleNamespace(), eval=lambda: loaded[-1])
        loaded.append(model)
        return model

    transformers = SimpleNamespace(
        AutoModelForCausalLM=SimpleNamespace(from_pretrained=from_pretrained),
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda _folder: None),
    )
    flags = parser().parse_args(["--model", "m", "--assistant", "a", "--num-assistant-tokens", "3"])
    model = Model(SimpleNamespace(float32="f"), transformers, flags)
    assert (model.context, model.is_end(3), model.is_end(5)) == (64, True, False)
    assert vars(loaded[1].generation_config) == {
        "num_assistant_tokens": 3,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


@pytest.mark.usefixtures("unblocked")
def test_a_folder_without_a_configuration_and_a_missing_library_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def load() -> tuple[Any, Any]:
        raise ImportError("no torch")

    assert main(["--model", str(tmp_path)], load) == 2
    (tmp_path / "config.json").write_text("{}")
    assert main(["--model", str(tmp_path)], load) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"transformers_server: {tmp_path}: holds no config.json; give a model folder"
    assert second == "transformers_server: torch or transformers is missing (no torch); pip install 'draftproof[torch]'"


def test_every_launch_line_of_the_description_is_understood() -> None:
    description = load_description("transformers")
    values = {"python": "p", "model": "m", "pack": "d", "port": "0", "k": "4", "draft_k": "3"}
    for arm in description.arms.values():
        options = [word for words in (description.launch.options | arm.options).values() for word in words]
        lines = [*description.launch.command[3:], *description.launch.bit_comparable, *arm.flags, *options]
        flags = parser().parse_args([word.format(**values) for word in lines])
        assert flags.model == Path("m")
