"""Faults that a drafter's author could make, each the plain drafter with a line or two said wrongly. None changes a reply's text.

Sources: the mutation table of the format's description, and reports of low acceptance against engines that draft from packs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.forward_serve.decoding.dflash import reference

SLIDING = "second-sliding-both-ways"
CAUSAL = "second-causal-as-it-slides"
NARROW = "second-window-under-the-block"
FULL = "second-kernel-of-three"
CAPPED = "second-scaled-and-capped"

OUTPUT = "x + self.convolved(1, output, base, deltas)"
DELTA_ROW = "(side * num_taps + tap) * num_groups + group"
SOURCE = "source = slot - tap"
TOP = "return ordered[:top_k]"
KEY_NORM = 'key = rms(key, self.weight(layer, "self_attn.k_norm.weight"))'
MULTIPLIER = 'self.inner.get("output_multiplier", 1.0)'
CONVOLVED_CONTEXT = (
    '= self.convolved(0, rows := np.array(self.context), self.weight(layer, "attention_conv.base_kernel"), '
    'self.deltas(rows, layer, "attention_conv"))\n'
)
CODEBOOKS = '"predecessor_codebook", "successor_codebook"'


@dataclass(frozen=True, slots=True)
class Fault:
    """What is said wrongly, and the variant whose hidden rows or drafts must show it."""

    name: str
    edits: Mapping[str, str]  # right: wrong
    variant: str = SLIDING
    only_later: bool = False  # the first round cannot show it


OF_TAPS_AND_CONTEXT = (
    Fault("tap ids one lower", {"streams[layer]": "streams[layer - 1]"}),
    Fault("tap ids one higher", {"streams[layer]": "streams[layer + 1]"}),
    Fault("taps in the order of layers", {"for layer in ids]": "for layer in sorted(ids)]"}),
    Fault("taps in reverse", {"for layer in ids]": "for layer in reversed(ids)]"}),
    Fault("no hidden norm", {'rms(mapped, self.weights["hidden_norm.weight"])': "mapped"}),
    Fault("last rows of a pass kept", {"layers[:num_kept]": "layers[-num_kept:]"}, only_later=True),
    Fault("all rows of a pass kept", {"layers[:num_kept]": "layers"}, only_later=True),
    Fault("a rejected row kept", {"layers[:num_kept]": "layers[: num_kept + 1]"}, only_later=True),
    Fault("context positions restart each round", {"start = len(self.positions)\n": "start = 0\n"}, only_later=True),
    Fault(
        "context through the input norm",
        {
            "= self.context\n": '= [rms(row, self.weight(layer, "input_layernorm.weight")) for row in self.context]\n',
        },
    ),
    Fault("context convolved", {"= self.context\n": CONVOLVED_CONTEXT}),
    Fault("no key norm on context", {KEY_NORM: f"{KEY_NORM} if len(keys[-1]) >= len(self.context) else key"}),
    Fault("key norm of layer 0", {KEY_NORM: KEY_NORM.replace("layer", "0")}),
)
OF_THE_BLOCK = (
    Fault("another mask id", {'mask = self.inner["mask_token_id"]': 'mask = self.inner["mask_token_id"] - 1'}),
    Fault("no embedding scale", {'self.inner.get("input_embedding_scale", 1.0)': "1.0"}, CAPPED),
    Fault("block one position ahead", {"slots = [start + slot for": "slots = [start + 1 + slot for"}),
    Fault("theta of ten thousand", {'config.get("rope_parameters", config)["rope_theta"]': "1e4"}),
    Fault(
        "interleaved pairs",
        {
            "row[:half] + 1j * row[half:]": "row[::2] + 1j * row[1::2]",
            "np.concatenate([pairs.real, pairs.imag])": "np.stack([pairs.real, pairs.imag], axis=1).reshape(-1)",
        },
    ),
    Fault("heads tiled over key heads", {"kv_head = head // group": 'kv_head = head % self.config["num_key_value_heads"]'}),
    Fault("no final norm", {'rms(row, self.weights["norm.weight"]) for row in x': "row for row in x"}),
    Fault("sliding block causal", {"if causal and key > query": "if key > query"}),
    Fault("full block causal", {"if causal and key > query": "if key > query"}, FULL),
    Fault("causal because it slides", {"causal = slides if is_causal is None else is_causal": "causal = slides"}),
    Fault("not causal though it slides", {"causal = slides if is_causal is None else is_causal": "causal = False"}, CAUSAL),
    Fault("window ignored", {"if not slides:": "if True:"}),
    Fault("window ignored by a causal layer", {"if not slides:": "if True:"}, CAUSAL),
    Fault("window one more", {"return query - key < window": "return query - key <= window"}),
    Fault("window one less", {"return query - key < window": "return query - key + 1 < window"}),
    Fault("window backwards alone", {"causal or key - query <": "True or key - query <"}, NARROW),
    Fault("window not inside the block", {"return query - key <": "return key >= len(self.positions) or query - key <"}, NARROW),
)
OF_THE_CONVOLUTION = (
    Fault("no delta", {"delta = deltas[": "delta = 0 * deltas["}),
    Fault("no base", {"(base[side, tap, channel] + delta)": "delta"}),
    Fault("taps of the base swapped", {"base[side, tap,": "base[side, num_taps - 1 - tap,"}),
    Fault("taps of the delta swapped", {"side * num_taps + tap)": "side * num_taps + num_taps - 1 - tap)"}),
    Fault("groups interleaved", {"group = channel // group_size": "group = channel % num_groups"}),
    Fault("delta rows by tap, side, group", {DELTA_ROW: "(tap * 2 + side) * num_groups + group"}),
    Fault("delta rows by side, group, tap", {DELTA_ROW: "(side * num_groups + group) * num_taps + tap"}),
    Fault(
        "sides swapped",
        {"h = self.convolved(0,": "h = self.convolved(1,", "self.convolved(1, output": "self.convolved(0, output"},
    ),
    Fault("first side on both", {"self.convolved(1, output": "self.convolved(0, output"}),
    Fault("looks ahead", {SOURCE: "source = slot + tap if slot + tap < len(rows) else -1"}),
    Fault("wraps around", {SOURCE: "source = (slot - tap) % len(rows)"}),
    Fault("first slot repeated before the block", {SOURCE: "source = max(0, slot - tap)"}),
    Fault("context before the block", {"continue\n": "rows, source = np.vstack([rows, self.context[-1]]), len(rows)\n"}),
    Fault("delta of the slot that is read", {"delta = deltas[slot,": "delta = deltas[source,"}),
    Fault(
        "deltas of the output from the mixed input",
        {
            "output = function(h, layer)": "output, deltas = function(h, layer), self.deltas(h, layer, conv)",
        },
    ),
    Fault(
        "deltas of the output from the output",
        {
            "output = function(h, layer)\n": "output = function(h, layer)\n        deltas = self.deltas(output, layer, conv)\n",
        },
    ),
    Fault("input not convolved", {"output = function(h, layer)": "output = function(y, layer)"}),
    Fault(
        "keys and values of the unmixed block",
        {
            "output = function(h, layer)": "self.unmixed = y\n        output = function(h, layer)",
            "[*context, *h]": "[*context, *self.unmixed]",
        },
    ),
    Fault("output not convolved", {OUTPUT: "x + output"}),
    Fault("output of the feed-forward not convolved", {OUTPUT: f'x + output if conv == "mlp_conv" else {OUTPUT}'}),
    Fault("residual convolved", {OUTPUT: "self.convolved(1, x + output, base, deltas)"}),
    Fault("third tap dropped", {"for tap in range(num_taps)": "for tap in range(2)"}, FULL),
)
OF_THE_DRAFTS = (
    Fault("selector ignored", {"self.chosen(row, z, previous) if self.is_second else ": ""}),
    Fault("edges from the anchor alone", {"            previous = best\n": ""}),
    Fault("edges from the best logit", {"previous = best\n": "previous = int(np.argmax(z))\n"}),
    Fault(
        "codebooks swapped",
        {
            f"first, second = {CODEBOOKS}": f"second, first = {CODEBOOKS}",
        },
    ),
    Fault("gate of the slot before", {"row = hidden[slot]": "row = hidden[slot - 1]"}),
    Fault("logits of the slot before", {"z = self.logits(hidden[slot])": "z = self.logits(hidden[slot - 1])"}),
    Fault("no gate", {"before[i] * gate[i] * after[i]": "before[i] * after[i]"}),
    Fault("edges alone", {"= z[token] + edge": "= edge"}),
    Fault("edges taken away", {"= z[token] + edge": "= z[token] - edge"}),
    Fault("one candidate more", {TOP: "return ordered[: top_k + 1]"}),
    Fault("one candidate less", {TOP: "return ordered[: top_k - 1]"}),
    Fault("no cut of candidates", {TOP: "return ordered"}),
    Fault("padding among the candidates", {"bound = self.bound": "bound = len(self.lm_head)"}),
    Fault("no multiplier", {MULTIPLIER: "1.0"}, CAPPED),
    Fault(
        "multiplier after the cap",
        {f"z = z * {MULTIPLIER}": "", "cap * np.tanh(z / cap)": f"{MULTIPLIER} * cap * np.tanh(z / cap)"},
        CAPPED,
    ),
    Fault("multiplier of the edges too", {"= z[token] + edge": f"= z[token] + {MULTIPLIER} * edge"}, CAPPED),
    Fault("no cap", {"if cap else z": "if False else z"}, CAPPED),
    Fault("cap of the sum", {"= z[token] + edge": "= 3.0 * np.tanh((np.arctanh(z[token] / 3.0) * 3.0 + edge) / 3.0)"}, CAPPED),
)
FAULTS = (*OF_TAPS_AND_CONTEXT, *OF_THE_BLOCK, *OF_THE_CONVOLUTION, *OF_THE_DRAFTS)


def with_fault(fault: Fault) -> ModuleType:
    """Return the plain drafter's module with this fault."""
    path = Path(reference.__file__)
    source = path.read_text()
    for right, wrong in fault.edits.items():
        assert source.count(right) == 1, f"{fault.name}: {right!r} stands {source.count(right)} times in {path.name}"
        source = source.replace(right, wrong)
    module = ModuleType("faulty_reference")
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102  (our own file)
    return module
