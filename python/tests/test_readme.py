"""The README is what an index shows, and its example runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")


def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", FOLDER / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_index_gets_pictures_that_it_can_show_or_none() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", TEXT)
    assert pictures
    assert all((FOLDER / picture).is_file() for picture in pictures)
    shown = _build().described(TEXT, "https://example.org/stasis/")
    assert f"(https://example.org/stasis/python/{pictures[0]})" in shown
    without = _build().described(TEXT, "")
    assert "![" not in without
    assert "shows itself" not in without
    # Nothing else is left out.
    assert re.findall(r"^#+ .*", without, re.MULTILINE) == re.findall(r"^#+ .*", TEXT, re.MULTILINE)
    assert without.count("```") == TEXT.count("```")


def test_the_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", TEXT, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.split() == printed.split()
