"""Points with a guest under `exact` on two worker processes, each computed again on the other one and compared.

python benchmarks/guests.py [--points 20] FOLDER
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import stasis

FIO = ["fio", "--name=r", "--filename=/dev/nvme0n1", "--rw=randrw", "--bs=4k", "--direct=1", "--number_ios=200"]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    words.add_argument("--points", type=int, default=20)
    given = words.parse_args()
    experiment = stasis.Experiment(
        command=[*FIO, "--iodepth=${DEPTH}", "--ioengine=libaio"],
        drives=[stasis.Drive("samsung-980-pro", "ram:64MiB", name="ssd")],
        engine="exact",
    )
    study = stasis.Study(
        "guests",
        experiment=experiment,
        axes={"variable.DEPTH": [1, 8], "seed": f"1..{given.points // 2}"},
        ios="parquet",
        results=given.folder,
    )
    began = time.monotonic()
    result = stasis.sweep(study, workers=2, verify=given.points, progress=False)
    lines = [json.loads(line) for line in (given.folder / "log.jsonl").read_text().splitlines()]
    elsewhere = sum(line["worker"] != line["before"] for line in lines if line["event"] in ("repeats", "differs"))
    same = result.verified - len(result.differences)
    print(
        f"{result.computed} of {result.total} points computed, {result.verified} of them again, {elsewhere} on the "
        f"other worker; {same} the same, byte for byte; {len(result.failures)} failed; the points' own time at first "
        f"{result.own_seconds:.1f} s, {time.monotonic() - began:.1f} s in all; {len(result.ios):,} I/Os"
    )
    for each in [*result.failures, *result.differences]:
        print(f"{each.point}: {each.message}")


if __name__ == "__main__":
    main()
