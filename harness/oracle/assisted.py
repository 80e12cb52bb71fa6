"""The path of a reply under transformers' assisted generation, and what its prompt lookup proposes: from its source alone.

Each pass drafts first, on the bare prompt too, and ends with a token of the model's own: whatever of a block matches, the last token that
it delivers is no draft. An end token is that last one wherever it stood in the block. It knows no model and no server.

Source: GenerationMixin._assisted_decoding in generation/utils.py, and PromptLookupCandidateGenerator and AssistedCandidateGenerator in
generation/candidate_generator.py, of transformers v5.24.0.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.oracle.draft_model import NotAskedError
from harness.oracle.loop import Said, Step, Trace, num_equal
from harness.records.expectation import Ids

Drafter = Callable[[Ids, int], Ids]  # stream, room -> drafts


def walk_assisted(prompt: Ids, said: Said, drafter: Drafter) -> Trace | None:
    """Return the path of a reply; None where the drafter does not know what it would say, or where a stop string ended it.

    What comes of a stop string hangs on where in a block it is completed: that is no path of the rules.
    """
    if said.stopped:
        return None
    coming = (*said.ids, *(() if said.end_token is None else (said.end_token,)))
    steps: list[Step] = []
    emitted = 0
    while emitted < len(coming):
        room = said.budget - emitted - 1
        try:
            drafts = drafter((*prompt, *coming[:emitted]), room) if room > 0 else ()
        except NotAskedError:
            return None
        accepted = min(num_equal(drafts, coming[emitted:]), len(coming) - emitted - 1)
        steps.append(Step(emitted, room > 0, drafts, accepted))
        emitted += accepted + 1
    return Trace(tuple(steps), 0, None)


def look_up(stream: Ids, most_ngram: int, k: int, ends: Ids = ()) -> Ids:
    """Return what follows the earliest occurrence of the longest suffix that has one, at most `k` tokens; () = silence.

    It is bounded by no budget. Drafts end before an end token: where one is the first of them there are none, though another place
    might have some.
    """
    for size in range(min(most_ngram, len(stream) - 1), 0, -1):
        tail = stream[-size:]
        for start in range(len(stream) - size):
            if stream[start : start + size] == tail:
                return before_end(stream[start + size : start + size + k], ends)
    return ()


def before_end(drafts: Ids, ends: Ids) -> Ids:
    """Return the drafts before the first end token."""
    return drafts[: next((at for at, token in enumerate(drafts) if token in ends), len(drafts))]


def up_to_end(drafts: Ids, ends: Ids) -> Ids:
    """Return the drafts up to the first end token, which an assistant proposes as its last."""
    return drafts[: next((at + 1 for at, token in enumerate(drafts) if token in ends), len(drafts))]
