"""The pass that fails on purpose."""

from __future__ import annotations

import pytest

from forward_serve.serving.fault import InjectedFaultError, PassFault


def test_the_third_pass_fails_once_and_names_its_flag() -> None:
    hook = PassFault(3)
    hook()
    hook()
    with pytest.raises(InjectedFaultError, match="--fail-pass=3"):
        hook()
    hook()
