"""The notebooks, each executed from its first cell to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from .conftest import ROOT

NOTEBOOKS = ROOT / "python" / "notebooks"


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("STASIS_EXAMPLES", str(ROOT / "examples" / "crash"))
    # A kernel finds its settings below HOME, which stays as it is: guests are there.
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def shown(notebook: Any) -> list[str]:
    """What each cell shows as a page."""
    data = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    return [each["text/html"] for each in data if "text/html" in each]


def test_the_tail_of_an_ftl(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = executed("tail-latency", here, monkeypatch)
    assert sum("&lt;svg" in page for page in shown(notebook)) == 2
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "6 points were computed, 2 compared, 0 differ" in text


@pytest.mark.slow
def test_a_first_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = executed("first-run", here, monkeypatch)
    assert sum("&lt;svg" in page for page in shown(notebook)) == 2


@pytest.mark.slow
def test_a_crash_test(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = executed("crash-test", here, monkeypatch)
    assert any("something was found" in page for page in shown(notebook))


def test_the_first_plot_takes_ten_lines() -> None:
    """From the installation to the first plot: pip, and the first cell of the first notebook."""
    notebook = nbformat.read(NOTEBOOKS / "first-run.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    lines = [line for line in cell.source.splitlines() if line.strip()]
    assert len(lines) + 1 <= 10
