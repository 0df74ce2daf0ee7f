"""Studies: an experiment at each point of a grid, and the experiments of publications."""

from .definition import Study
from .outcome import Failure, StudyResult
from .reproduction import ReproductionResult, reproduce
from .running import sweep
from .search import Search

__all__ = ["Failure", "ReproductionResult", "Search", "Study", "StudyResult", "reproduce", "sweep"]
