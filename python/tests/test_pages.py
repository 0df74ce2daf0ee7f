"""Pages and what notebooks show: as a browser shows them and a reader uses them, where Chromium is installed."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stasis
from stasis.pages import LIMIT, Axis, Page, Section, Series, distribution, drawn, table
from stasis.plots import shown
from stasis.study.outcome import Failure, StudyResult
from stasis.study.page import _page

from .conftest import ROOT

#: What uses a page's plots and tells what it saw; the program's own pages are tested by it.
DRIVER = ROOT / "crates" / "results" / "report" / "tests" / "browser" / "driver.js"
#: Measures how a page is laid out, in the same way.
LAYOUT = ROOT / "crates" / "results" / "report" / "tests" / "browser" / "layout.html"
#: Drawn by its script, a plot is at most so far from where it was (units of the drawing).
FAR = 0.21
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

needs_browser = pytest.mark.skipif(
    not any(map(shutil.which, BROWSERS)), reason="no Chromium in PATH to show the page (apt-get install chromium)"
)


def browsed(page: str, folder: Path, *, dark: bool = False) -> Any:
    """What the page's script left in `#seen`."""
    path = folder / "browsed.html"
    path.write_text(page)
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
    words += [f"--user-data-dir={folder}/profile", "--window-size=1200,4000", "--virtual-time-budget=20000"]
    words += ["--hide-scrollbars", "--allow-file-access-from-files"]
    words += [f"--blink-settings=preferredColorScheme={int(not dark)}"]
    done = subprocess.run([browser, *words, "--dump-dom", f"file://{path}"], capture_output=True, text=True, check=True)
    text = done.stdout[done.stdout.index('id="seen"') :]
    return json.loads(html.unescape(text[text.index(">") + 1 : text.index("</pre>")]))


def check(seen: Any, figures: int) -> None:
    assert seen["errors"] == []
    assert (seen["figures"], seen["live"], seen["wide"]) == (figures, figures, False)
    for title, far in seen["again"]:
        assert isinstance(far, (int, float)), f"{title}: {far}"
        assert far < FAR, title


def check_layout(page: str, folder: Path) -> None:
    """It is to be read on a wide screen, on a phone and on paper, light and dark."""
    (folder / "laid-out.html").write_text(page)
    for dark in (False, True):
        seen = browsed(LAYOUT.read_text(), folder, dark=dark)
        assert seen["errors"] == []
        faults = {view: looked["faults"] for view, looked in seen["views"].items()}
        assert faults == {"wide": [], "phone": [], "print": []}
        assert all(looked["texts"] > 10 for looked in seen["views"].values())


def driven(page: str) -> str:
    return page.replace("</body>", f"<script>{DRIVER.read_text()}</script></body>")


@pytest.fixture
def result(here: Path) -> stasis.Result:
    return stasis.simulate("samsung-980-pro", workload="job.fio", results="r", progress=False)


@needs_browser
def test_a_study_s_report_is_interactive(here: Path, tmp_path: Path) -> None:
    made = stasis.Study(
        "counts",
        simulate={
            "model": "flash-tlc",
            "size": "1GiB",
            "workload": "[r]\nrw=randrw\nioengine=libaio\niodepth=4\nnumber_ios=${COUNT}\n",
        },
        axes={"variable.COUNT": [300, 2000, 20000], "model.gc.policy": ["greedy", "cost-benefit"]},
    )
    study = stasis.sweep(made, workers=1, progress=False)
    page = study.report.read_text()
    assert "prefers-color-scheme: dark" in page
    # Reads and writes: maps of mean and p99, the distributions of the points, latencies over the counts.
    check(browsed(driven(page), tmp_path), 8)
    check_layout(page, tmp_path)


#: Tells what is in the frames of a notebook.
FRAMES = """<script>
window.addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    const figure = page.querySelector("figure.live");
    const [svg, path] = [figure.querySelector("svg"), figure.querySelector("path[data-kind]")];
    const box = svg.getBoundingClientRect();
    const [, x, y] = path.getAttribute("d").match(/M(\\S+) ([\\d.]+)/).map(Number);
    const scale = box.width / svg.viewBox.baseVal.width;
    svg.dispatchEvent(new frame.contentWindow.PointerEvent("pointermove",
      { bubbles: true, clientX: box.left + x * scale, clientY: box.top + y * scale }));
    return { live: page.querySelectorAll("figure.live").length, tip: figure.querySelector(".tip").textContent,
      high: frame.clientHeight, content: page.documentElement.offsetHeight };
  });
  const out = Object.assign(document.createElement("pre"), { id: "seen", textContent: JSON.stringify(frames) });
  document.body.append(out);
});
</script>"""


@needs_browser
def test_what_a_notebook_shows_is_interactive(here: Path, result: stasis.Result, tmp_path: Path) -> None:
    other = stasis.simulate("femu-basic", workload="job.fio", size="1GiB", results="other", progress=False)
    cells = [result._repr_html_(), stasis.compare(fast=result, other=other)._repr_html_()]
    one, both = browsed(f"<!DOCTYPE html><body>{FRAMES}{''.join(cells)}</body>", tmp_path)
    assert (one["live"], both["live"]) == (1, 1)
    assert "read: " in one["tip"]
    assert " at or below " in one["tip"]
    for frame in (one, both):
        # As high as its page, so that nothing is scrolled twice.
        assert abs(frame["high"] - frame["content"]) < 10
        assert frame["high"] > 250


def test_figures_stand_beside_the_plots(result: stasis.Result) -> None:
    text = shown([result])
    frame, figures = text.split("</iframe>")
    assert "&lt;svg" in frame
    assert "<td>read</td><td>1,000</td>" in figures
    # Another results folder may have any name.
    result.label = '<script>alert("x")</script>'
    frame, figures = shown([result]).split("</iframe>")
    assert "<script>alert" not in html.unescape(frame)
    assert "<script>alert" not in figures


def test_many_ios_are_shown_by_their_percentiles(result: stasis.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    from stasis.plots import _page

    (plot,) = _page([result], 0).sections[0].blocks[0]["plots"]
    assert len(plot["distribution"]["series"][0]["points"]) == 203
    monkeypatch.setattr("stasis.plots.MOST", 999)
    (plot,) = _page([result], 0).sections[0].blocks[0]["plots"]
    points = plot["distribution"]["series"][0]["points"]
    # 1,000 I/Os carry p99.9, and not p99.99.
    assert [share for _, share in points] == pytest.approx(
        [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1]
    )


def test_without_a_program_there_are_figures(result: stasis.Result, fake: Any) -> None:
    fake("echo 'stasis: out of ink' >&2; exit 125\n")
    text = shown([result])
    assert "No plots: out of ink" in text
    assert "<td>read</td><td>1,000</td>" in text
    study = StudyResult("s", result.folder, [], 1, [])
    assert study._repr_html_() is None


def test_a_page_is_drawn_coarser_until_it_is_small_enough() -> None:
    asked: list[int] = []

    def page(level: int) -> Page:
        asked.append(level)
        points = [(float(index + 1), index / 200_000) for index in range(200_000 >> level)]
        return Page("p", sections=[Section("", [{"plots": [distribution("d", Axis("x"), [Series("s", points)])]}])])

    text = drawn(page)
    assert len(text) <= LIMIT
    assert asked == list(range(len(asked)))
    assert 1 < len(asked) < 8


def test_a_page_says_what_it_is_given() -> None:
    text = drawn(lambda _: Page("a < b", "below", [Section("h", [table(["k", "v"], [("<i>", 1.5)], "c")])]))
    assert "<h1>a &lt; b</h1>" in text
    assert '&lt;i&gt;</th><td class="figure">1.5</td>' in text
    with pytest.raises(stasis.ProgramError, match="standard input describes no page: unknown variant `verse`"):
        drawn(lambda _: Page("p", sections=[Section("", [{"verse": "x"}])]))
    with pytest.raises(ValueError, match="not JSON compliant"):
        drawn(lambda _: Page("p", sections=[Section("", [{"facts": float("nan")}])]))


def test_a_large_study_makes_a_small_page(tmp_path: Path) -> None:
    """500 seeds, 12 values of another axis and three words; 4 drives with three operations; many failures."""
    names = ("mean", "p1", "p10", "p25", "p50", "p75", "p90", "p99", "p99.9", "max")
    rows = [
        {
            "drive": f"drive{drive}", "operation": operation, "count": 10_000, "seed": seed, "depth": seed % 12 + 1,
            "model.gc.policy": ("greedy", "cost-benefit", "oldest")[seed % 3],
            **{f"delivered_{name}_ns": 1e4 * (place + 1) + seed * 7.3 for place, name in enumerate(names)},
        }
        for drive in range(4) for operation in ("read", "write", "flush") for seed in range(1, 501)
    ]  # fmt: skip
    failures = [Failure(f"seed = {seed}", "k", "it broke " * 20) for seed in range(20_000)]
    result = StudyResult("large", tmp_path, ["seed", "depth", "model.gc.policy"], 20_500, [], failures)
    text = drawn(lambda level: _page(result, rows, level))
    assert len(text.encode()) <= LIMIT
    assert text.count("Latency by depth, the geometric mean of the points</figcaption>") == 12
    assert "more are in `log.jsonl`" in text


def test_an_axis_of_fractions_is_one_of_numbers(tmp_path: Path) -> None:
    """The folders of the figures have its values as texts."""
    rows = [
        {"drive": "d", "operation": "read", "count": 1000, "axis": value, "word": word, "delivered_mean_ns": 1e4}
        | {f"delivered_{name}_ns": 1e4 for name in ("p1", "p10", "p25", "p50", "p75", "p90", "p99", "p99.9", "max")}
        for value in ("0.25", "10.5", "2.5")
        for word in ("1.5", "no")
    ]
    text = drawn(lambda level: _page(StudyResult("s", tmp_path, ["axis", "word"], 6, []), rows, level))
    assert [text.index(f">{value}</th>") for value in ("0.25", "2.5", "10.5")] == sorted(
        text.index(f">{value}</th>") for value in ("0.25", "2.5", "10.5")
    )
    assert "<svg" in text
    assert ">no</th>" in text
