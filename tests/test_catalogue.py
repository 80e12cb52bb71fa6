"""What the shipped catalogues must hold: apart from the tests of their reader, which run where no catalogue lies beside them."""

from __future__ import annotations

from pathlib import Path

from harness.mutation.catalogue import RELAY, load_catalogue
from harness.mutation.relay.registry import FAULTS

ROOT = Path(__file__).parents[1]


def test_every_fault_of_the_relay_but_nothing_has_an_entry() -> None:
    used = {mutant.entry.relay["fault"] for mutant in load_catalogue(ROOT / "mutants" / RELAY).mutants}
    assert used == set(FAULTS) - {"nothing"}
