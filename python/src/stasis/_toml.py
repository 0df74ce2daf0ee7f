"""The reader of TOML: the standard library's from Python 3.11 on."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
