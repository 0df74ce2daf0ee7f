"""What pip calls this package. `stasis` on PyPI is another project's."""

DISTRIBUTION = "stasis-vm"

# Where the sources are: no index is asked for our name.
STUDIES = "in the sources of Stasis, pip install './python[study]'"
