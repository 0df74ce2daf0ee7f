"""Points that are asked for one after the other."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

import stasis

READ = {"model": {"kind": "fixed", "read": "100us"}, "workload": "job.fio", "size": "1GiB"}


def test_an_optimizer_asks_for_points(here: Path) -> None:
    search = stasis.Search(stasis.Study(name="tune", simulate=READ, axes={"seed": "1..2"}))
    asked = []

    def objective(trial: optuna.Trial) -> float:
        asked.append(trial.suggest_int("read", 10, 20))
        results = search.ask({"model.read": f"{asked[-1]}us"})
        assert len(results) == 2
        return max(float(each.summary["drives"][0]["read"]["delivered_ns"]["p50"]) for each in results)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optimizer = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    optimizer.optimize(objective, n_trials=5)
    assert optimizer.best_value == min(asked) * 1000

    result = search.result()
    # What was asked for twice was computed once, and nothing is computed to show all together.
    assert (result.total, result.computed) == (2 * len(set(asked)), 0)
    frame = result.to_polars()
    assert set(frame["model.read"]) == {f"{each}us" for each in asked}
    assert result.report.is_file()
    # The file in the folder is the study with the points that were asked for.
    assert stasis.sweep(result.folder / "study.toml", results="tune-study", progress=False).computed == 0


def test_several_points_at_a_time_and_errors(here: Path) -> None:
    search = stasis.Search(stasis.Study(name="tune", simulate=READ))
    with pytest.raises(stasis.StudyError, match="nothing was asked for"):
        search.result()
    slow, fast = search.ask({"model": {"read": "9us", "kind": "fixed"}}, {"model": {"read": "1us", "kind": "fixed"}})
    assert slow.summary["drives"][0]["read"]["delivered_ns"]["p50"] == 9000
    assert fast.summary["drives"][0]["read"]["delivered_ns"]["p50"] == 1000
    with pytest.raises(stasis.StudyError, match="nonsense"):
        search.ask({"model.read": "nonsense", "model.kind": "fixed"})
    with pytest.raises(stasis.StudyError, match="lists its points"):
        stasis.Search(stasis.Study(name="tune", simulate=READ, points=[{"seed": 1}]))
