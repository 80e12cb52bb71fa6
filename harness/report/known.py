"""The findings that are pinned faults of the subject, one line for each fault: where it shows, and the shortest request that repeats it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.records.finding import Finding, Judgement
from harness.records.plan import Request
from harness.records.recording import Run


def known_lines(run: Run, judgement: Judgement) -> Iterator[str]:
    """Yield a line for each pinned fault that was found, in the description's order."""
    for fault in run.declared.known_faults:
        found = [one for result in judgement.results for one in result.findings if one.known == fault.id]
        own = [one for one in found if one.check == fault.check]
        if own:
            arms = ", ".join(dict.fromkeys(run.plan.start(one.start).arm for one in own))
            yield f"XFAIL {fault.id} ({fault.check}): {len(found)} findings on {arms}; {_shortest(run, own)}; {fault.link}"


def _shortest(run: Run, findings: list[Finding]) -> str:
    """Return the request that repeats one of these with the fewest tokens in and out."""
    asked = [(start_id, request) for one in findings for start_id, request in _requests(run, one)]
    start_id, request = min(asked, key=lambda pair: (len(pair[1].prompt_ids) + pair[1].max_tokens, pair[1].id))
    size = f"{len(request.prompt_ids)} ids and {request.max_tokens} tokens"
    return f"shortest: {start_id} asked {request.id} ({size})"


def _requests(run: Run, finding: Finding) -> Iterator[tuple[str, Request]]:
    """Yield the request of a finding; of one on a start as a whole, all that its check reads there."""
    for request in run.plan.start(finding.start).requests:
        if request.id == finding.request or (not finding.request and finding.check in request.checks):
            yield finding.start, request
