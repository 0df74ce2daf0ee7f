"""Progress bars, in a terminal and in a notebook."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

with warnings.catch_warnings():
    # Without ipywidgets a notebook gets bars of text.
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm

#: Between two looks at how much was recorded (s).
_EVERY = 0.5
#: Files that grow with a run.
_GROWING = ("ios.parquet", "ios.csv", "ios.csv.zst")


def bar(**options: Any) -> Any:
    """A bar of tqdm's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tqdm(dynamic_ncols=True, **options)


class Progress:
    """The bar of one run. It is gone when the run has ended."""

    def __init__(self, what: str, results: Optional[Path] = None) -> None:
        self._results = results
        self._next = 0.0
        self._bar = bar(
            total=100,
            desc=what,
            leave=False,
            bar_format="{desc} |{bar}| {elapsed}{postfix}",
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._bar.close()

    def say(self, what: str, percent: Optional[int]) -> None:
        """Shows the current work, and its progress."""
        self._bar.set_description_str(what, refresh=False)
        if percent is not None:
            self._bar.n = percent
        self._bar.refresh()

    def tick(self) -> None:
        """Shows the size of the results until now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        for name in _GROWING if self._results is not None else ():
            assert self._results is not None
            try:
                size = (self._results / name).stat().st_size
            except OSError:
                continue
            self._bar.set_postfix_str(f"{size / 1e6:.1f} MB of I/Os", refresh=False)
            break
        self._bar.refresh()
