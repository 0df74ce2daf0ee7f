"""`Result.ios` of ten million rows into Polars: time and memory, from ios.parquet and from ios.csv.

    python benchmarks/ios.py [--rows 10000000] [--times 3] FOLDER

The program writes both files, once. Each reading is a process of its own; memory is the most that it had beyond what
it had after its imports. The first reading of a file finds it in the system's cache, or does not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import stasis

JOB = "[mix]\nrw=randrw\nrwmixread=70\nbs=4k\nioengine=libaio\niodepth=16\nsize=1g\nio_size=1t\nnumber_ios={rows}\n"

READ = """\
import time, re, pathlib, sys
import polars, pyarrow, pyarrow.csv, pyarrow.parquet, stasis
from stasis.ios import read_ios
def status(key):
    return int(re.search(rf"{key}:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
path = pathlib.Path(sys.argv[1])
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
began, cpu = time.perf_counter(), time.process_time()
ios = read_ios(path)
middle = time.perf_counter()
frame = ios.to_polars()
ended, used = time.perf_counter(), time.process_time() - cpu
most, columns = status("VmHWM") - before, ios.table.nbytes
print(f"{path.name}, {path.stat().st_size / 1e6:.0f} MB: {frame.height:,} rows in {ended - began:.2f} s "
      f"({ended - middle:.2f} s of them to Polars), {used:.2f} s of processor; "
      f"columns {columns / 1e6:.0f} MB, most memory {most / 1e6:.0f} MB: {most / columns:.2f} times; "
      f"sum {frame['delivered_ns'].sum()}")
"""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    words.add_argument("--rows", type=int, default=10_000_000)
    words.add_argument("--times", type=int, default=3)
    given = words.parse_args()
    for form in ("parquet", "csv"):
        results = given.folder / form
        path = results / f"ios.{form}"
        if not path.exists():
            stasis.simulate("fixed:100us", workload=JOB.format(rows=given.rows), size="1GiB", ios=form, results=results)
        for _ in range(given.times):
            subprocess.run([sys.executable, "-c", READ, str(path)], check=True)


if __name__ == "__main__":
    main()
