"""A checkup as a table for a person: a line per item, what was seen, and how to get what is not there. It judges nothing."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from harness.records.checkup import Checkup, Item, State

STYLES = {State.THERE: "green", State.LOST: "yellow", State.MISSING: "bold red"}


def checkup_table(checkup: Checkup) -> Table:
    """Return the table of a checkup."""
    table = Table(box=box.SIMPLE, title=checkup.subject or None, title_justify="left")
    table.add_column("")
    table.add_column("what is needed")
    table.add_column("what was found, and how to get what is missing", overflow="fold")
    for item in checkup.items:
        table.add_row(Text(item.state.value, style=STYLES[item.state]), Text(item.what), _told(item))
    return table


def closing_line(checkup: Checkup) -> str:
    """Return the one line that says whether a run may begin."""
    counted = [sum(item.state is state for item in checkup.items) for state in State]
    there, lost, missing = counted
    what = f"subject {checkup.subject}, a build of {checkup.family}" if checkup.subject else "the gate"
    rest = f", {lost} done without" if lost else ""
    return f"{what}: {there} of {len(checkup.items)} there{rest}, {missing} missing"


def _told(item: Item) -> Text:
    text = Text(item.seen)
    return text if item.state is State.THERE else text.append(f"\n-> {item.fix}", style="bold")
