"""Stasis: stock Linux and real programs on storage that you do not have.

import stasis
result = stasis.simulate("samsung-980-pro", workload="job.fio")
result.ios.to_polars()
"""

from importlib import metadata

from ._collect import Collection, collect
from ._compare import Comparison, compare
from ._distribution import DISTRIBUTION
from ._executable import executable
from ._models import model, models
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
    Container,
    Disk,
    Drive,
    Expectation,
    Experiment,
    Explore,
    Fault,
    FaultSpace,
    Guest,
    Health,
    KeyValue,
    Limits,
    Link,
    Machine,
    Metadata,
    Namespace,
    Network,
    Ocssd,
    Outside,
    Programs,
    Red,
    Serve,
    Workload,
    Zones,
    Zrwa,
)
from .frame import Frame
from .ios import Ios
from .result import Result
from .study import ReproductionResult, Search, Study, StudyResult, reproduce, sweep

try:
    #: The package's version, which is that of the program in its wheel.
    __version__ = metadata.version(DISTRIBUTION)
except metadata.PackageNotFoundError:
    # From a folder of sources that is not installed.
    __version__ = "unknown"

__all__ = [
    "Collection",
    "Comparison",
    "Container",
    "CrashTest",
    "Disk",
    "Drive",
    "Expectation",
    "Experiment",
    "ExperimentError",
    "Explore",
    "Fault",
    "FaultSpace",
    "Frame",
    "Guest",
    "Health",
    "Interrupted",
    "Ios",
    "KeyValue",
    "Limits",
    "Link",
    "Machine",
    "Metadata",
    "Namespace",
    "Network",
    "Ocssd",
    "Outside",
    "ProgramError",
    "ProgramNotFound",
    "Programs",
    "Red",
    "ReproductionResult",
    "Result",
    "ResultsError",
    "Search",
    "Serve",
    "StasisError",
    "Study",
    "StudyError",
    "StudyResult",
    "Workload",
    "Zones",
    "Zrwa",
    "__version__",
    "collect",
    "compare",
    "crash_test",
    "crash_test_async",
    "executable",
    "model",
    "models",
    "reproduce",
    "run",
    "run_async",
    "simulate",
    "simulate_async",
    "sweep",
]
