"""Guests: one run, a study that is computed twice, and a crash test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stasis

pytestmark = pytest.mark.slow

FIO = ["fio", "--name=r", "--filename=/dev/nvme0n1", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=50"]


def experiment() -> stasis.Experiment:
    return stasis.Experiment(
        command=FIO, drives=[stasis.Drive("samsung-980-pro", "ram:64MiB", name="ssd")], engine="exact", seed=1
    )


def test_a_guest_s_run(here: Path) -> None:
    result = stasis.run(experiment(), results="r", progress=False)
    assert (result.exit_status, result.ending) == (0, "exited")
    assert "IOPS=" in result.output
    assert result.summary["drives"][0]["read"]["count"] >= 50
    assert (here / "r" / "report.html").exists()


def test_a_command_that_fails_is_no_exception(here: Path) -> None:
    failing = stasis.Experiment(
        command=["sh", "-c", "cat; cp /root/a /results; exit 125"], guest=stasis.Guest(files=["a"]), engine="exact"
    )
    (here / "a").write_text("content")
    result = stasis.run(failing, results="r", progress=False, stdin=b"from the host\n")
    assert (result.exit_status, result.ending) == (125, "exited")
    assert "from the host" in result.output
    assert result.files["a"].read_text() == "content"


def test_points_with_a_guest_repeat_to_the_byte(here: Path) -> None:
    study = stasis.Study("guests", experiment=experiment(), axes={"seed": "1..3"}, ios="parquet")
    result = stasis.sweep(study, workers=2, verify=3, progress=False)
    assert result.ok, (result.failures, result.differences)
    assert result.verified == 3
    lines = [json.loads(line) for line in (result.folder / "log.jsonl").read_text().splitlines()]
    repeats = [line for line in lines if line["event"] == "repeats"]
    assert len(repeats) == 3
    assert len(result.ios) > 150
