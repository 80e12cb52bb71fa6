"""What a request says once it is valid. Knows neither the fields' spelling on the wire (fields.py) nor the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Endpoint(enum.Enum):
    """The two that generate, by their path."""

    COMPLETION = "/v1/completions"
    CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What a request says of sampling. The defaults are the dialect's."""

    temperature: float = 1.0  # 0 = greedy
    top_k: int = 0  # 0 = all
    top_p: float = 1.0
    seed: int | None = None  # None = fresh entropy

    @property
    def is_greedy(self) -> bool:
        """Whether the reply is the argmax of every row; top_k 1 with a temperature is sampled."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class Penalties:
    """Penalties on tokens that have been seen. The defaults do nothing."""

    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0

    @property
    def is_neutral(self) -> bool:
        """Whether they change no logit."""
        return self == Penalties()


class GrammarKind(enum.Enum):
    """The two notations of a grammar, by the word for one in a message."""

    REGEX = "regular expression"
    JSON_SCHEMA = "JSON schema"


@dataclass(frozen=True, slots=True)
class Grammar:
    """A constraint on the whole reply."""

    kind: GrammarKind
    source: str  # the expression, or the schema as JSON
    field: str  # where it stands in the body, such as structured_outputs.regex


@dataclass(frozen=True, slots=True)
class Output:
    """What the answer carries beside its text."""

    stream: bool = False
    include_usage: bool = False  # of a stream; an unstreamed answer always has its usage
    return_token_ids: bool = False
    return_spec: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One valid request. `max_tokens` is the budget that the context leaves."""

    endpoint: Endpoint
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams = SamplingParams()
    stops: tuple[str, ...] = ()
    ignore_eos: bool = False
    output: Output = Output()
    grammar: Grammar | None = None
    num_logprobs: int | None = None  # 0 asks, for the chosen token alone
    penalties: Penalties = Penalties()
    logit_bias: tuple[tuple[int, float], ...] = ()  # (id, bias); () = none

    @property
    def wants_argmax_alone(self) -> bool:
        """Whether each token is the argmax of its row as it is, and nothing more is asked of the row."""
        asks_more = self.grammar is not None or self.num_logprobs is not None or bool(self.logit_bias)
        return self.sampling.is_greedy and self.penalties.is_neutral and not asks_more
