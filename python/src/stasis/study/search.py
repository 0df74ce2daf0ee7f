"""A study whose points are asked for one after the other, as an optimizer does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from ..errors import StudyError
from ..result import Result
from .axes import Values, flattened
from .definition import Study
from .outcome import StudyResult
from .running import sweep

__all__ = ["Search"]


class Search:
    """A study whose points are not known beforehand: each is asked for, and its results tell which
    to ask for next, by hand or by an optimizer such as Optuna::

        search = stasis.Search(stasis.Study(name="tune", simulate={...}, axes={"seed": "1..3"}))

        def objective(trial):
            results = search.ask({"model.gc.policy": trial.suggest_categorical("policy", ["greedy", "d-choices"])})
            return max(each.summary["drives"][0]["read"]["delivered_ns"]["p99"] for each in results)

        optuna.create_study().optimize(objective, n_trials=20)
        search.result().to_pandas()

    ``study``: a `Study`, or its file, without points of its own. Each point that is asked for is
    combined with all that its axes give, such as several seeds. ``on`` and ``workers`` are those of
    `sweep`; ``results`` is the folder, by default the study's.

    A point that is finished is not computed again, neither here nor by a later search in the folder.

    Raises `StudyError` for a study that lists points.
    """

    def __init__(
        self,
        study: Union[Study, str, Path],
        *,
        on: Any = None,
        workers: Union[int, None] = None,
        results: Union[str, Path, None] = None,
    ) -> None:
        self._study = study if isinstance(study, Study) else Study.read(study)
        if self._study.points is not None:
            raise StudyError("the study lists its points, and a search asks for them; leave out `points`")
        self._options = {"on": on, "workers": workers, "results": results}
        self._asked: list[Values] = []

    def ask(self, *points: Mapping[str, Any]) -> Sequence[Result]:
        """The results of ``points``, each a value for the same keys, in their order; of each point, in
        the order of the study's axes. Several are computed at the same time.

        Raises `StudyError` where one cannot be computed, with the program's message.
        """
        if not points:
            raise StudyError("name a point to ask for, such as {'seed': 1}")
        asked = [flattened(point) for point in points]
        found = self._swept(asked)
        if found.failures:
            raise StudyError(f"{found.failures[0].point}: {found.failures[0].message}")
        self._asked += [point for point in asked if point not in self._asked]
        return found.results()

    def result(self) -> StudyResult:
        """All that this search has asked for, as one study with its page and its figures.

        Raises `StudyError` where nothing was.
        """
        if not self._asked:
            raise StudyError("nothing was asked for; call `ask` first")
        return self._swept(self._asked)

    def _swept(self, points: Sequence[Values]) -> StudyResult:
        # No file describes it: the study is written into its folder, with its points.
        study = dataclasses.replace(self._study, points=list(points), files=())
        return sweep(study, progress=False, **self._options)
