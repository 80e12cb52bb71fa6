"""Code of the subject's sources, compiled before the fork: the same code under another file name, or none."""

import importlib
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType

import pytest

from harness.subjects.precompiled import compile_sources, install, renamed

TEXT = "class A:\n    def f(self):\n        return [x for x in (1, 2)]\n"


@pytest.fixture
def tree(tmp_path):
    package = tmp_path / "tree" / "precompiled_engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TEXT)
    (package / "broken.py").write_text("def\n")
    (package / "warns.py").write_text("value = 1 is 1\n")
    return tmp_path / "tree"


@pytest.fixture
def importer(monkeypatch):
    """The importer as it was, afterwards."""
    monkeypatch.setattr(SourceFileLoader, "source_to_code", SourceFileLoader.source_to_code)
    yield
    for name in [name for name in sys.modules if name.startswith("precompiled_engine")]:
        del sys.modules[name]


def file_names(code: CodeType) -> set[str]:
    return {code.co_filename}.union(*(file_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def test_modules_are_compiled_by_their_text_and_what_does_not_compile_is_left_out(tree):
    codes = compile_sources(str(tree), ["precompiled_engine"])
    assert set(codes) == {TEXT.encode(), b"value = 1 is 1\n"}


def test_code_of_another_file_name_is_the_code_that_this_file_compiles_to():
    code = compile(TEXT, "/there.py", "exec")
    assert renamed(code, "/here.py") == compile(TEXT, "/here.py", "exec")
    assert file_names(renamed(code, "/here.py")) == {"/here.py"}


def test_an_overlay_takes_the_code_of_equal_texts_and_compiles_the_others(tree, tmp_path, importer, monkeypatch):
    codes = compile_sources(str(tree), ["precompiled_engine"])
    overlay = tmp_path / "overlay" / "precompiled_engine"
    overlay.mkdir(parents=True)
    (overlay / "__init__.py").write_text(TEXT)
    (overlay / "other.py").write_text("value = 2\n")
    compiled = []
    compile_source = SourceFileLoader.source_to_code

    def counted(self, data, path, **options):
        compiled.append(str(path))
        return compile_source(self, data, path, **options)

    monkeypatch.setattr(SourceFileLoader, "source_to_code", counted)
    monkeypatch.syspath_prepend(overlay.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    install(codes)
    module = importlib.import_module("precompiled_engine")
    other = importlib.import_module("precompiled_engine.other")
    assert compiled == [str(overlay / "other.py")]
    assert module.A.f.__code__.co_filename == str(overlay / "__init__.py")
    assert (module.A().f(), other.value) == ([1, 2], 2)
