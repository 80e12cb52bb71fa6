"""The closed sets in which a description speaks: dialects, capabilities and their behaviour, the accounting variant."""

from __future__ import annotations

import enum


class Dialect(enum.StrEnum):
    """The shape of requests and answers."""

    OPENAI = "openai"  # completions and chat completions, with vLLM's additions
    LLAMA = "llama"  # llama.cpp's own POST /completion
    SGLANG = "sglang"  # SGLang's own POST /generate


class IgnoreEos(enum.StrEnum):
    """What a request that ignores end tokens does with them."""

    GOES_ON = "goes-on"  # one may come, and the reply goes on behind it
    BANS = "bans"  # none can be chosen, so another token comes in its place


class Silent(enum.StrEnum):
    """What an answer may not say, or say without meaning it."""

    FINISH_REASON = "finish_reason"
    STOP_REASON = "stop_reason"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"


class LogStreams(enum.StrEnum):
    """Which of the subject's outputs are its log."""

    STDERR = "stderr"
    BOTH = "both"


class Behaviour(enum.StrEnum):
    """What an arm does with a request that carries one capability."""

    ENGAGED = "engaged"  # served, speculatively
    ABSTAINS = "abstains"  # served by plain decoding
    REFUSES = "4xx"
    UNSUPPORTED = "unsupported"  # the surface has no such field


class Capability(enum.StrEnum):
    """What a request may ask beyond a greedy text completion."""

    STOP = "stop"
    TEMPERATURE = "temperature"
    SEED = "seed"
    LOGPROBS = "logprobs"
    GRAMMAR = "grammar"
    PENALTIES = "penalties"
    LOGIT_BIAS = "logit_bias"
    IGNORE_EOS = "ignore_eos"
    IDS_IN = "ids_in"
    IDS_OUT = "ids_out"
    OVER_LONG_PROMPT = "over_long_prompt"
    STREAM = "stream"


class AcceptedAtStop(enum.StrEnum):
    """What `accepted` holds when a stop falls inside a block."""

    TRIMMED = "trimmed"  # delivered drafts only
    WITH_MATCHES = "with-matches"  # matches behind the stop too


class DraftedMeans(enum.StrEnum):
    """What `drafted` counts."""

    PROPOSED = "proposed"
    WIDTH_TIMES_ROUNDS = "width-times-rounds"  # not measured: the most that its rounds could propose
    PADDED = "padded"  # proposals, and what fills a block up
    GRAMMAR_VALID = "grammar-valid"  # proposals that the request's grammar allows


class NoDraft(enum.StrEnum):
    """How the counts of an answer look when nothing was drafted."""

    ZEROS = "zeros"  # they are there all the same: an answer without them does not say what was drafted
    ABSENT = "absent"


class BudgetCap(enum.StrEnum):
    """How the remaining budget bounds a draft."""

    REMAINING = "remaining"
    REMAINING_MINUS_1 = "remaining-minus-1"
    NONE = "none"  # drafts may run over it, and those that are accepted there are counted


class FirstToken(enum.StrEnum):
    """Where the first token of a reply is counted."""

    INSIDE = "inside"  # it opens the first round
    OUTSIDE = "outside"  # it comes from prefill, before any round
