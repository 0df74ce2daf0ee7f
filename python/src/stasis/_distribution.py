"""Name of this package for pip. `stasis` on PyPI belongs to another project."""

DISTRIBUTION = "stasis-vm"

# Where the sources are: no index is asked for our name.
STUDIES = "in the sources of Stasis, pip install './python[study]'"
