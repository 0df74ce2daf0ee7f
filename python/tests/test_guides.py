"""The blocks of the guides that take this package, as they stand there."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

import stasis
from stasis.study.cli import main

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guides" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def reader(here: Path) -> Path:
    """A folder with the examples."""
    shutil.copytree(ROOT / "examples", here / "examples")
    shutil.copy(ROOT / "examples" / "job.fio", here)
    return here


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_to_programs(reader: Path) -> None:
    # A reproduction on a cluster takes one.
    codes = [code for code in blocks("programs", "python") if "reproduce" not in code]
    assert len(codes) == 2
    assert "shape: (5, " in run(codes[0], reader)
    assert "choices" in run(codes[1], reader)


def test_the_guide_s_study(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks("programs", "text")
    (text,) = (block for block in found if "[simulate]" in block)
    (commands,) = (block for block in found if block.startswith("stasis-sweep"))
    (reader / "study.toml").write_text(text)
    # The others take a cluster.
    first, *_, last = (re.sub(r"\s+#.*", "", line).split() for line in commands.splitlines())
    assert main(last[1:]) == 0
    assert "seed = 5" in capsys.readouterr().out
    assert main(first[1:]) == 0
    assert len(stasis.collect("study-study").results) == 20
    # The page begins as the guide says: an axis has an effect, another one has none.
    text = (ROOT / "docs" / "guides" / "programs.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"(?:^> .*\n)+", text, re.MULTILINE)
    page = html.unescape((reader / "study-study" / "report.html").read_text(encoding="utf-8"))
    assert re.sub(r"\n?> ", " ", told).strip() in page


def test_the_guide_to_tail_latency(reader: Path) -> None:
    job, flash = reader / "job.fio", "flash-tlc"
    for name in ("results", "tail"):
        stasis.simulate(flash, workload=job, results=name, timeline=True, progress=False)
    pandas, sql = blocks("tail-latency", "text")[-2:]
    code = re.search(r"<<'END'\n(.*)END\n", pandas, re.DOTALL)
    assert code is not None
    assert "latency" in run(textwrap.dedent(code[1]), reader)
    query = re.search(r'duckdb -c "(.*)"\n', sql, re.DOTALL)
    assert query is not None
    # The fixture's folder is the current one.
    assert duckdb.sql(query[1].replace('\\"', '"')).columns[:2] == ["order", "what"]
