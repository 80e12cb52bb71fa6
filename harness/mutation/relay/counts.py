"""Faults of what is counted: in the log line, in the answer and in the process's counters, in all of them or in some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.mutation.relay.fault import OK, Asked, Fault, Json
from harness.mutation.relay.speech import Record

LINE, ANSWER, METRICS = "line", "answer", "metrics"
NOTHING = "-"
TEXTS = ("id", "path", "drafter", "reason")


def read_line(line: str, prefix: str) -> Record | None:
    """Return the counts of a log line `PREFIX key=value ...`; None for any other line."""
    first, *words = line.split(" ")
    if not prefix or first != prefix:
        return None
    pairs = dict(word.partition("=")[::2] for word in words)
    return {name: value if name in TEXTS else None if value == NOTHING else int(value) for name, value in pairs.items()}


def write_line(record: Record, prefix: str) -> str:
    """Return counts as a log line."""
    return " ".join((prefix, *(f"{name}={NOTHING if value is None else value}" for name, value in record.items())))


@dataclass(slots=True)
class CountsFault(Fault):
    """A fault of counts: `change` alone. Each witness that it is for tells the changed ones."""

    witnesses: tuple[str, ...] = (LINE, ANSWER, METRICS)
    reason: str = ""  # for records of this reason alone
    num_lines: int = field(init=False, default=0)
    added: dict[str, int] = field(init=False, default_factory=dict)  # to the counters of the process, by count

    reads_answers = True
    reads_streams = True

    def change(self, record: Record) -> Record:
        """Return what is to be told of a request."""
        raise NotImplementedError

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """Change the counts of a whole reply."""
        changed = self._changed(asked, body) if status == OK else None
        return None if changed is None else (status, changed)

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """Change the counts of the event that holds them."""
        changed = self._changed(asked, event)
        return None if changed is None else [changed]

    def line(self, line: str) -> list[str] | None:
        """Change the counts of a line."""
        prefix = self.settings["line_prefix"]
        record = read_line(line, prefix) if LINE in self.witnesses else None
        if record is None:
            return None
        self.num_lines += 1
        if self.num_lines < self.when.first or not self._is_for(record):
            return None
        return [write_line(self.change(record), prefix)]

    def metrics(self, totals: Mapping[str, int]) -> Mapping[str, int]:
        """Add what the answers were changed by."""
        with self.lock:
            return {name: value + self.added.get(name, 0) for name, value in totals.items()}

    def _changed(self, asked: Asked, body: Json) -> Json | None:
        record = self.speech.record(body)
        if record is None or not self.when.holds(self.speech, asked) or not self._is_for(record):
            return None
        changed = self.change(record)
        if METRICS in self.witnesses:
            with self.lock:
                for name in ("drafted", "accepted", "rounds", "cached"):
                    difference = (changed.get(name) or 0) - (record.get(name) or 0)
                    self.added[name] = self.added.get(name, 0) + difference
        return self.speech.recording(body, changed) if ANSWER in self.witnesses else None

    def _is_for(self, record: Record) -> bool:
        when = self.when
        return (
            when.drafted in (None, record["drafted"] > 0)
            and when.accepted in (None, record["accepted"] > 0)
            and self.reason in ("", record.get("reason"))
        )


@dataclass(slots=True)
class SetCounts(CountsFault):
    """Some counts are constant."""

    values: dict[str, int | str | None] = field(default_factory=dict)
    none: tuple[str, ...] = ()  # counts that are to be null, which a catalogue's file cannot say

    def change(self, record: Record) -> Record:
        """See CountsFault; what a witness does not tell is not added."""
        values = {**self.values, **dict.fromkeys(self.none)}
        return {name: values.get(name, value) for name, value in record.items()}


@dataclass(slots=True)
class AddedCounts(CountsFault):
    """Some counts are off by a constant."""

    values: dict[str, int] = field(default_factory=dict)

    def change(self, record: Record) -> Record:
        """See CountsFault."""
        return {name: value + self.values[name] if name in self.values else value for name, value in record.items()}


@dataclass(slots=True)
class WidthTimesRounds(CountsFault):
    """What is called drafted is the width of a block times the rounds."""

    width: int = 4

    def change(self, record: Record) -> Record:
        """See CountsFault."""
        return {**record, "drafted": self.width * record["rounds"]}


@dataclass(slots=True)
class PlainCounts(CountsFault):
    """The counts are those of a reply that was not speculated on."""

    def change(self, record: Record) -> Record:
        """See CountsFault: every token then takes a plain step, and no pass is saved."""
        changed = {**record, "drafted": 0, "accepted": 0}
        if "plain" in record:
            changed |= {"path": "plain", "rounds": 0, "plain": record["plain"] + record["rounds"] + record["accepted"]}
        return {**changed, "per_round": []} if "per_round" in record else changed


@dataclass(slots=True)
class ShiftedRounds(CountsFault):
    """One of the two lists of the rounds is behind the other by one: their sums stay."""

    part: str = "drafts"  # or "accepted"

    def change(self, record: Record) -> Record:
        """See CountsFault."""
        rounds = record.get("per_round")
        if not rounds:
            return record
        drafts, accepted = [one[0] for one in rounds], [one[1] for one in rounds]
        if self.part == "drafts":
            drafts = [*drafts[-1:], *drafts[:-1]]
        else:
            accepted = [*accepted[-1:], *accepted[:-1]]
        return {**record, "per_round": [list(pair) for pair in zip(drafts, accepted, strict=True)]}


@dataclass(slots=True)
class CappedRounds(CountsFault):
    """No round proposes or lands more than so many drafts; what it would have landed beyond took plain steps."""

    most: int = 3

    def change(self, record: Record) -> Record:
        """See CountsFault; only an answer lists its rounds."""
        if "per_round" not in record:
            return record
        rounds = [[drafts[: self.most], min(accepted, self.most)] for drafts, accepted in record["per_round"]]
        accepted = sum(one[1] for one in rounds)
        return {
            **record,
            "drafted": sum(len(one[0]) for one in rounds),
            "accepted": accepted,
            "plain": record["plain"] + record["accepted"] - accepted,
            "per_round": rounds,
        }


@dataclass(slots=True)
class OtherLines(Fault):
    """The log line of a request is written so many times: twice, or not at all."""

    times: int = 0

    def line(self, line: str) -> list[str] | None:
        """See Fault."""
        is_counts = read_line(line, self.settings["line_prefix"]) is not None
        return [line] * self.times if is_counts else None


@dataclass(slots=True)
class FrozenMetrics(Fault):
    """The counters of the process stay what they were when they were first read."""

    first: dict[str, int] = field(init=False, default_factory=dict)

    def metrics(self, totals: Mapping[str, int]) -> Mapping[str, int]:
        """See Fault; what comes and goes is told as it is."""
        with self.lock:
            self.first = self.first or dict(totals)
            return {**totals, **{name: value for name, value in self.first.items() if name != "busy"}}
