"""`Result.ios` of ten million rows into Polars: time and memory, from ios.csv and from ios.parquet.

    python benchmarks/ios.py [--rows 10000000] FOLDER

Each is read in a process of its own; memory is the most that it had beyond what it had after its imports.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import stasis

JOB = "[mix]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=16\nsize=1g\nio_size=1t\nnumber_ios={rows}\n"

READ = """\
import time, re, pathlib, os, sys
import polars, pyarrow, pyarrow.csv, pyarrow.parquet, stasis
from stasis.ios import read_ios
def status(key):
    return int(re.search(rf"{key}:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
began, cpu = time.perf_counter(), time.process_time()
ios = read_ios(pathlib.Path(sys.argv[1]))
frame = ios.to_polars()
passed, used = time.perf_counter() - began, time.process_time() - cpu
most, columns = status("VmHWM") - before, ios.table.nbytes
print(f"{sys.argv[1]}: {frame.height:,} rows, {passed:.2f} s, {used:.2f} s of processor; "
      f"columns {columns / 1e6:.0f} MB, most memory {most / 1e6:.0f} MB: {most / columns:.2f} times; "
      f"sum {frame['delivered_ns'].sum()}")
"""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    words.add_argument("--rows", type=int, default=10_000_000)
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    files = [given.folder / "csv" / "ios.csv", given.folder / "ios.parquet"]
    if not files[0].exists():
        stasis.simulate(
            "fixed:100us", workload=JOB.format(rows=given.rows), size="1GiB", ios="csv", results=given.folder / "csv"
        )
    if not files[1].exists():
        # In groups as the program's `--ios parquet` writes it.
        import pyarrow.parquet

        from stasis.ios import read_ios

        pyarrow.parquet.write_table(read_ios(files[0]).table, files[1], compression="zstd", row_group_size=64 << 10)
    for path in files:
        subprocess.run([sys.executable, "-c", READ, str(path)], check=True)


if __name__ == "__main__":
    main()
