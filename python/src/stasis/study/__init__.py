"""Studies: an experiment at each point of a grid."""

from .definition import Study
from .outcome import Failure, StudyResult
from .running import sweep

__all__ = ["Failure", "Study", "StudyResult", "sweep"]
