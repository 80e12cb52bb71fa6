"""How an engine is described: launch lines, environment, ready line, dialect, where counts come from, what it declares.

A description is a TOML file, read strictly: an unknown key, an unknown placeholder or a pattern that does not compile is
an error that names file and key. It starts nothing, and it does not know what an answer means.
"""

from __future__ import annotations

import re
import string
from pathlib import Path

import msgspec

from harness.errors import FileFormatError
from harness.records.known import KnownFault
from harness.records.recording import ArmFacts, Declared
from harness.subjects.declarations import AcceptedAtStop, Behaviour, BudgetCap, Capability, Dialect, FirstToken, NoDraft
from harness.subjects.inheritance import read_extended
from harness.subjects.tables import (
    Accounting,
    Arm,
    CountsSource,
    Environment,
    Fixtures,
    Launch,
    Limits,
    NonNegative,
    Ready,
    Requirements,
    Source,
    Speech,
    Strict,
    Tracing,
    Warm,
)

BUILT_IN = frozenset({"python", "program", "model", "pack", "port", "scratch", "device"})  # placeholders that the launcher fills
TELL_COUNTS = (Dialect.LLAMA, Dialect.SGLANG)  # dialects whose answers say what was drafted
ANY = "any"  # the table of capabilities of all that draft


class Description(Strict, frozen=True):
    """One engine. `path` is the file that it was read from; relative paths are resolved against its folder."""

    name: str
    family: str
    launch: Launch
    arms: dict[str, Arm]
    ready: Ready
    accounting: Accounting
    environment: Environment = Environment()
    source: Source | None = None
    warm: Warm | None = None
    dialect: Speech = Speech()
    counts: CountsSource = CountsSource()
    tracing: Tracing = Tracing()
    limits: Limits = Limits()
    requires: Requirements = Requirements()
    fixtures: Fixtures = Fixtures()
    capabilities: dict[str, dict[Capability, Behaviour]] = {}  # by drafter; "any": of all that draft
    known_faults: tuple[KnownFault, ...] = ()
    certified: bool = True  # equal requests give equal replies to the bit: what differs is a fault, and never classified
    near_tie_budget: NonNegative = 0  # how many near-ties a run may have where it is not certified
    parallel_arms: bool = True  # False: a process-wide lock lets only one arm live at a time
    path: str = ""

    @property
    def source_root(self) -> Path | None:
        """The absolute root of the tree that a mutant may edit; None where there is no source."""
        return None if self.source is None else (Path(self.path).parent / self.source.root).resolve()

    @property
    def watched_paths(self) -> tuple[str, ...]:
        """Shell patterns of the paths that the tracer watches."""
        return self.tracing.watched_paths

    @property
    def tells_counts(self) -> bool:
        """Whether a log line or an answer itself says what was drafted; counters of the process then are a second witness."""
        return bool(self.counts.line_prefix or self.counts.fields) or self.dialect.name in TELL_COUNTS

    @property
    def _always_tells(self) -> bool:
        """Whether the first witness speaks for every answer; where it is silent, counters of the process are the only one."""
        return self.tells_counts and not (self.counts.fields and self.accounting.no_draft is NoDraft.ZEROS)

    def declared(self) -> Declared:
        """Return the part that judging needs, as it travels with recordings."""
        return Declared(
            arms={name: _facts(arm) for name, arm in self.arms.items()},
            vocab_bound=self.limits.vocab_bound,
            width=self.limits.width,
            reports_rounds=bool(self.counts.rounds_field or (self.counts.fields and self.counts.fields.per_round)),
            returns_ids=bool(self.dialect.ids_field),
            watched_paths=self.watched_paths,
            reports_path=bool(self.counts.line_prefix),
            reports_counts=self.tells_counts or self.counts.metrics is not None,
            seconds_counts=self._always_tells and bool(self.counts.usage_field or self.counts.metrics),
            drafted=self.accounting.drafted.value,
            silent=tuple(name.value for name in self.dialect.silent),
            first_token_outside=self.accounting.first_token is FirstToken.OUTSIDE,
            names_refusals=self.dialect.names_refusals,
            reserves_token=self.accounting.budget_cap is BudgetCap.REMAINING_MINUS_1,
            caps_at_budget=self.accounting.budget_cap is not BudgetCap.NONE,
            trims_at_stop=self.accounting.accepted_at_stop is AcceptedAtStop.TRIMMED,
            exact_scores=self.dialect.exact_scores,
            most_opens=self.tracing.most_opens,
            never_equal=self.dialect.never_equal,
            capabilities=self._behaviours(),
            known_faults=self.known_faults,
            certified=self.certified,
            near_tie_budget=self.near_tie_budget,
        )

    def _behaviours(self) -> dict[str, dict[str, str]]:
        """Return capability -> behaviour of every drafter; ANY speaks for those that draft, as far as their own tables do not."""
        behaviours = {}
        for drafter in dict.fromkeys(arm.drafter for arm in self.arms.values()):
            shared = self.capabilities.get(ANY, {}) if drafter != "none" else {}
            table = shared | self.capabilities.get(drafter, {})
            behaviours[drafter] = {capability.value: behaviour.value for capability, behaviour in table.items()}
        return behaviours

    def arms_of(self, role: str) -> tuple[str, ...]:
        """Return the arms that play a plan's arm, in the file's order."""
        return tuple(name for name, arm in self.arms.items() if (arm.role or name) == role)

    def parameters_of(self, arm: str) -> frozenset[str]:
        """Return the parameters that a start of an arm may give."""
        taken = self.arms[arm]
        words = (*self.launch.command, *self.launch.bit_comparable, *taken.flags)
        options = self.launch.options | taken.options
        return frozenset({*placeholders(words), *options} - BUILT_IN)


def _facts(arm: Arm) -> ArmFacts:
    return ArmFacts(
        drafter=arm.drafter,
        oracle=arm.oracle,
        expect=arm.expect,
        device=arm.device,
        width=arm.width,
        prefix_cache=arm.prefix_cache,
        dumps_logits=bool(arm.dump),
        remembers=arm.remembers,
        samples_alike=arm.samples_alike,
    )


def bundled_names() -> tuple[str, ...]:
    """Return the names of the descriptions that come with the tool, sorted."""
    return tuple(sorted(path.stem for path in _bundled_folder().glob("*.toml")))


def load_description(name_or_path: str | Path) -> Description:
    """Read a description by its bundled name ("forward-serve") or from a .toml file, with what it extends.

    Raises FileFormatError naming file and key.
    """
    path = _file_of(name_or_path)
    try:
        read = msgspec.convert(read_extended(path, _file_of), Description)
    except msgspec.ValidationError as error:
        raise FileFormatError(f"{path}: {error}") from error
    description = msgspec.structs.replace(read, path=str(path))
    _check(description)
    return description


def _file_of(name_or_path: str | Path) -> Path:
    """Return the absolute path of a description. Raises FileFormatError for a name that is not bundled."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        if str(name_or_path) not in bundled_names():
            known = ", ".join(bundled_names())
            raise FileFormatError(f"{name_or_path}: no such subject; use one of {known}, or the path of a .toml file")
        path = _bundled_folder() / f"{name_or_path}.toml"
    return path.absolute()


def placeholders(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the placeholder names in these words, in order, each once. Raises ValueError on a malformed one."""
    found: dict[str, None] = {}
    for word in words:
        for _, name, spec, conversion in string.Formatter().parse(word):
            if name is None:
                continue
            if not name.isidentifier() or spec or conversion:
                raise ValueError(f"{word!r}: a placeholder is {{name}} and nothing else")
            found[name] = None
    return tuple(found)


def _bundled_folder() -> Path:
    return Path(__file__).parent / "descriptions"


def _check(description: Description) -> None:
    _check_ready(description)
    _check_dialect(description)
    _check_words(description, "launch.command", description.launch.command, extra=())
    _check_words(description, "launch.bit_comparable", description.launch.bit_comparable, extra=())
    _check_options(description, "launch.options", description.launch.options)
    for name, arm in description.arms.items():
        _check_words(description, f"arms.{name}.flags", arm.flags, extra=None)
        _check_options(description, f"arms.{name}.options", arm.options)
        if arm.expect not in ("engaged", "not-engaged"):
            raise _error(description, f"arms.{name}.expect", arm.expect, "is engaged or not-engaged")
        if arm.device and not arm.device.startswith("/dev/"):
            raise _error(description, f"arms.{name}.device", arm.device, "must lie under /dev/")
        if arm.real_device and not arm.device:
            raise _error(description, f"arms.{name}.real_device", True, "needs the path of the device")
        if arm.dump and not re.fullmatch(r"[\w.-]*\{id\}[\w.-]*", arm.dump):
            raise _error(description, f"arms.{name}.dump", arm.dump, "is a file name with {id} in the scratch folder")
    drafters = {arm.drafter for arm in description.arms.values()}
    for drafter in description.capabilities:
        if drafter not in (*drafters, ANY):
            raise _error(description, f"capabilities.{drafter}", drafter, f"is no arm's drafter; use {sorted(drafters)}")
    for fault in description.known_faults:
        for arm_name in (*fault.arms, *fault.at_times):
            if arm_name not in description.arms:
                raise _error(description, f"known_faults.{fault.id}.arms", arm_name, "is no arm of this description")
        try:
            re.compile(fault.message)
        except re.error as error:
            rule = f"is no regular expression ({error})"
            raise _error(description, f"known_faults.{fault.id}.message", fault.message, rule) from error
    _check_warm(description)


def _check_ready(description: Description) -> None:
    launch, line = description.launch, description.ready.line
    try:
        pattern = re.compile(line)
    except re.error as error:
        raise _error(description, "ready.line", line, f"is no regular expression ({error})") from error
    if launch.needs_port and launch.hands_over_socket:
        raise _error(
            description, "launch.needs_port", True, "does not go with hands_over_socket; it has its port with the socket"
        )
    if not launch.needs_port and "port" not in pattern.groupindex:
        rule = r"needs a group (?P<port>\d+), or launch.needs_port where it does not say which port it has"
        raise _error(description, "ready.line", line, rule)


def _check_dialect(description: Description) -> None:
    if description.counts.fields is not None and description.dialect.name in TELL_COUNTS:
        where = f"has no use in dialect {description.dialect.name.value}, which knows where its counts are"
        raise _error(description, "counts.fields", description.counts.fields.drafted, where)


def _check_warm(description: Description) -> None:
    if description.warm is None:
        return
    start = ("{python}", "-m", description.warm.module)
    if description.launch.command[:3] != start:
        rule = f"must begin with {list(start)}, so that a warm start is the same command"
        raise _error(description, "launch.command", description.launch.command[:3], rule)
    packages = () if description.source is None else description.source.packages
    for module in description.warm.preload:
        if module.partition(".")[0] in (*packages, description.warm.module.partition(".")[0]):
            raise _error(description, "warm.preload", module, "belongs to the subject, which a warm parent never imports")


def _check_options(description: Description, key: str, options: dict[str, tuple[str, ...]]) -> None:
    for parameter, words in options.items():
        if parameter in BUILT_IN:
            raise _error(description, key, parameter, f"is filled by the launcher ({', '.join(sorted(BUILT_IN))})")
        _check_words(description, f"{key}.{parameter}", words, extra=(parameter,))


def _check_words(description: Description, key: str, words: tuple[str, ...], extra: tuple[str, ...] | None) -> None:
    """Check placeholders; `extra` are the parameters allowed beside the launcher's own, None = any."""
    try:
        names = placeholders(words)
    except ValueError as error:
        raise _error(description, key, words, str(error)) from error
    for name in names:
        if extra is not None and name not in BUILT_IN and name not in extra:
            allowed = ", ".join(sorted(BUILT_IN | set(extra)))
            raise _error(description, key, "{" + name + "}", f"is an unknown placeholder; use one of {allowed}")


def _error(description: Description, key: str, seen: object, rule: str) -> FileFormatError:
    return FileFormatError(f"{description.path}: {key}: {seen!r} {rule}")
