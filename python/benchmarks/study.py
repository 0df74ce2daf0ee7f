"""A study of 1,000 simulated points on two workers: how busy they are, and what killing one does.

    python benchmarks/study.py [--points 1000] [--kills 5] [--ios 500000] FOLDER

With --kills the study runs a second time, a worker is killed so many times meanwhile, and the
results of both are compared byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import threading
import time
from pathlib import Path

import dask
import distributed

import stasis
from stasis.study.pools import SETTINGS

JOB = "[mix]\nrw=randrw\nrwmixread=70\nbs=4k\nioengine=libaio\niodepth=16\nnumber_ios={ios}\n"


def study(points: int, ios: int, results: Path) -> stasis.Study:
    return stasis.Study(
        "busy",
        simulate={"model": "flash-tlc", "workload": JOB.format(ios=ios), "size": "2GiB"},
        axes={"model.gc.policy": ["greedy", "cost-benefit"], "seed": f"1..{points // 2}"},
        results=results,
    )


def figures(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "figures").rglob("*.parquet")}


def log(folder: Path, event: str) -> list[dict[str, object]]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def cpu(whose: int = resource.RUSAGE_SELF) -> float:
    """Seconds of processor that this process, or its children that have ended, have used."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def cpu_of(client: distributed.Client, whose: int) -> float:
    return float(sum(client.run(cpu, whose).values()))


def kill_some(client: distributed.Client, folder: Path, kills: int, points: int) -> list[int]:
    killed: list[int] = []
    while len(killed) < kills:
        done = len(list((folder / "points").glob("*"))) if (folder / "points").exists() else 0
        if done >= (len(killed) + 1) * points // (kills + 1):
            pids = list(client.run(os.getpid, on_error="ignore").values())
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)
        time.sleep(0.1)
    return killed


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    words.add_argument("--points", type=int, default=1000)
    words.add_argument("--kills", type=int, default=0)
    words.add_argument("--ios", type=int, default=500_000)
    given = words.parse_args()
    # As `stasis.sweep` starts its own.
    dask.config.set(SETTINGS)
    settings = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs="CRITICAL"
    )
    with settings as cluster, distributed.Client(cluster) as client:
        for name in ("undisturbed", "disturbed")[: 1 + bool(given.kills)]:
            folder, before = given.folder / name, cpu()
            workers, points = (cpu_of(client, whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            if name == "disturbed":
                threading.Thread(target=kill_some, args=(client, folder, given.kills, given.points)).start()
            result = stasis.sweep(study(given.points, given.ios, folder), on=client, workers=2, progress=False)
            busy = result.own_seconds / (2 * result.elapsed)
            print(
                f"{name}: {result.computed} points in {result.elapsed:.1f} s on 2 workers; the points' own time "
                f"{result.own_seconds:.1f} s; busy {busy:.1%}; above {1 / busy - 1:.1%}; scheduler and driver "
                f"{cpu() - before:.1f} s of processor; failed {len(result.failures)}; "
                f"computed {len(log(folder, 'finished'))}",
                flush=True,
            )
            # On a machine that others use, too, the processor's time tells more than the clock. Workers that were
            # killed have taken their figures with them.
            if name == "undisturbed":
                points = cpu_of(client, resource.RUSAGE_CHILDREN) - points
                workers = cpu_of(client, resource.RUSAGE_SELF) - workers
                rest = workers + cpu() - before
                print(
                    f"  processor: points {points:.1f} s, workers beside them {workers:.1f} s, scheduler, driver, data "
                    f"set and page {cpu() - before:.1f} s: {rest / points:.1%} above the points' own",
                    flush=True,
                )
    if given.kills:
        one, other = (figures(given.folder / name) for name in ("undisturbed", "disturbed"))
        print(f"files of the data set: {len(one)}, the same bytes: {one == other}")


if __name__ == "__main__":
    main()
