"""What llama.cpp's `ngram-simple` proposes: a plain scan over the history, from its published rule alone.

Source: common_ngram_simple_draft in common/ngram-map.cpp of llama.cpp. The history is prompt and reply; the last `size_n` tokens of it
are looked for, latest occurrence first, and the `size_m` tokens behind an occurrence are proposed. It knows no model and no server.
"""

from __future__ import annotations

from collections.abc import Sequence


def propose(stream: Sequence[int], size_n: int, size_m: int) -> tuple[int, ...]:
    """Return what follows the latest earlier occurrence of the last `size_n` tokens, at most `size_m` tokens; () = silence.

    The stream's own last token is no part of the history that is searched and copied from. It stays silent while the history is no
    longer than `size_n + size_m + 1`, for an occurrence at the very beginning, and where fewer than `size_n` tokens could be copied.
    """
    *history, _ = stream
    if len(history) <= size_n + size_m + 1:
        return ()
    pattern = tuple(stream[-size_n:])
    for start in range(len(history) - size_n - 1, 0, -1):
        if tuple(history[start : start + size_n]) == pattern:
            drafts = tuple(history[start + size_n : start + size_n + size_m])
            return drafts if len(drafts) >= size_n else ()
    return ()
