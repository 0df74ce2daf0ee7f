"""Stasis: stock Linux and real programs on storage that you do not have.

import stasis
result = stasis.simulate("samsung-980-pro", workload="job.fio")
result.ios.to_polars()
"""

from ._compare import Comparison, compare
from ._executable import executable
from ._run import CrashTest, crash_test, crash_test_async, run, run_async, simulate, simulate_async
from .errors import (
    ExperimentError,
    Interrupted,
    ProgramError,
    ProgramNotFound,
    ResultsError,
    StasisError,
    StudyError,
)
from .experiment import (
    Disk,
    Drive,
    Experiment,
    Guest,
    Machine,
    Ocssd,
    Serve,
    Workload,
    Zones,
    Zrwa,
)
from .ios import Ios
from .result import Result
from .study import ReproductionResult, Study, StudyResult, reproduce, sweep

__all__ = [
    "Comparison",
    "CrashTest",
    "Disk",
    "Drive",
    "Experiment",
    "ExperimentError",
    "Guest",
    "Interrupted",
    "Ios",
    "Machine",
    "Ocssd",
    "ProgramError",
    "ProgramNotFound",
    "ReproductionResult",
    "Result",
    "ResultsError",
    "Serve",
    "StasisError",
    "Study",
    "StudyError",
    "StudyResult",
    "Workload",
    "Zones",
    "Zrwa",
    "compare",
    "crash_test",
    "crash_test_async",
    "executable",
    "reproduce",
    "run",
    "run_async",
    "simulate",
    "simulate_async",
    "sweep",
]
