"""Figures as people read them."""

from __future__ import annotations


def nanos(value: float) -> str:
    """A time (ns) with its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} ns"


def bandwidth(value: float) -> str:
    """Bytes a second, in decimal units as drives are sold."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} B/s"


def in_unit(value: float, unit: str) -> str:
    """A figure of a comparison, in its ``unit``."""
    if unit == "ns":
        return nanos(value)
    return bandwidth(value) if unit == "B/s" else f"{value:.4g} {unit}"
