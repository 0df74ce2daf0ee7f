"""Where points are computed: by this machine, by any executor of `concurrent.futures`, or on a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Protocol, Union

from .._distribution import STUDIES
from ..errors import StudyError
from .task import Outcome, Task, compute, who

__all__ = ["DaskPool", "ExecutorPool", "LocalPool", "Pool", "pool_of"]

#: How long a scheduler has to answer, and a cluster's first worker to be there (s).
CONNECT = 10.0
FIRST_WORKER = 600.0
#: How long to wait for a second worker, and between two looks whether workers live (s).
SECOND_WORKER = 120.0
LOOK = 1.0
#: Between two looks whether a point has ended, and how long a cluster may be without workers (s).
TICK = 0.01
ABANDONED = 600.0
#: Number of workers that may die with one point before the point counts as failed.
DEATHS = 10


#: Dask's settings for clusters that are started here.
SETTINGS = {
    "distributed.scheduler.allowed-failures": DEATHS,
    # Dask gives a worker up for lost that is not back so soon: on a busy machine its start takes longer.
    "distributed.deploy.lost-worker-timeout": f"{ABANDONED:.0f}s",
    # The next point is there when one has ended.
    "distributed.scheduler.worker-saturation": 2.0,
    # Workers wait for a program: samples of their stacks and of the machine, a hundred a second, tell nothing.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
}

#: Contents of files by their digest.
Contents = Mapping[str, bytes]


def _of(task: Task, contents: Mapping[str, Any]) -> dict[str, Any]:
    """Of the contents those that a task needs."""
    needs = [digest for _, digest, _ in task.inputs.values()] + [digest for _, digest in task.guests]
    return {digest: contents[digest] for digest in needs if digest in contents}


class Pool(Protocol):
    """Workers."""

    #: Name of the pool for users.
    name: str

    def workers(self) -> int:
        """Number of points that are computed at once."""

    def run(
        self, tasks: Sequence[Task], contents: Contents, avoid: Optional[Mapping[str, str]] = None
    ) -> Iterator[Outcome]:
        """Computes the tasks, in any order. ``contents`` has the files that the workers do not see,
        by digest; ``avoid`` names for a task's key the worker that is not to have it.

        Raises `StudyError` where no worker is left.
        """


class ExecutorPool:
    """Any executor of `concurrent.futures`."""

    def __init__(self, executor: concurrent.futures.Executor, workers: Optional[int] = None) -> None:
        self.name = type(executor).__name__
        self._executor = executor
        self._workers = workers or getattr(executor, "_max_workers", None) or 1

    def workers(self) -> int:
        return int(self._workers)

    def _submit(self, task: Task, contents: Contents) -> concurrent.futures.Future[Outcome]:
        return self._executor.submit(compute, task, contents)

    def run(
        self, tasks: Sequence[Task], contents: Contents, avoid: Optional[Mapping[str, str]] = None
    ) -> Iterator[Outcome]:
        # As many as keep all workers busy, so that a long study does not fill the queue.
        waiting = iter(tasks)
        futures: dict[concurrent.futures.Future[Outcome], Task] = {}

        def more() -> None:
            for task in waiting:
                futures[self._submit(task, _of(task, contents))] = task
                if len(futures) >= 4 * self.workers():
                    return

        try:
            more()
            while futures:
                done, _ = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    yield _outcome(future, futures.pop(future))
                more()
        except concurrent.futures.BrokenExecutor as error:
            raise StudyError(
                f"the executor has broken: {error}. What is finished stays: run the study again"
            ) from error


class LocalPool(ExecutorPool):
    """Threads of this process, each of which waits for a program of its own."""

    def __init__(self, workers: int) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="stasis")
        super().__init__(self._threads, workers)
        self.name = "this machine"
        self._cancel = threading.Event()

    def _submit(self, task: Task, contents: Contents) -> concurrent.futures.Future[Outcome]:
        return self._executor.submit(compute, task, contents, self._cancel)

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the programs that still run, as after Ctrl-C, and waits for their end."""
        self._cancel.set()
        self._threads.shutdown(cancel_futures=True)


def _outcome(future: Any, task: Task) -> Outcome:
    """Outcome of a future, be it Dask's or an executor's."""
    try:
        outcome: Outcome = future.result()
    except concurrent.futures.BrokenExecutor:
        raise
    except Exception as error:
        # Tasks raise no exceptions: a KilledWorker means that `DEATHS` workers died with the task.
        return Outcome(task.key, failed=f"{type(error).__name__}: {error}", worker="unknown")
    return outcome


class DaskPool:
    """The workers of a Dask cluster."""

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client

    def workers(self) -> int:
        return sum(self._client.nthreads().values())

    def everywhere(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Calls a function on every worker; returns each result by the worker's address."""
        found: dict[str, Any] = self._client.run(function, *arguments)
        return found

    def run(
        self, tasks: Sequence[Task], contents: Contents, avoid: Optional[Mapping[str, str]] = None
    ) -> Iterator[Outcome]:
        from distributed import as_completed

        sent = _Sent(self._client, contents)
        futures: dict[Any, tuple[Task, set[str]]] = {}
        watch = _Watch(self)

        def submit(task: Task) -> Any:
            others = self._others(avoid[task.key]) if avoid else set()
            # Not `pure`: each key is asked for once, and again where it is to be compared.
            future = self._client.submit(compute, task, sent.of(task), pure=False, workers=list(others) or None)
            futures[future] = (task, others)
            return future

        completed = as_completed([submit(task) for task in tasks])
        while futures:
            for future in completed.next_batch(block=False):
                if future not in futures:
                    continue
                task, _ = futures.pop(future)
                if future.cancelled() and sent.again():
                    completed.add(submit(task))
                else:
                    yield _outcome(future, task)
                # The cluster drops its data of the future.
                future.release()
            # Workers have their next point already: nobody waits for this.
            time.sleep(TICK)
            if watch.look() and avoid:
                # A task whose workers have all died would wait for ever.
                alive = set(self._client.nthreads())
                for future in [future for future, (_, others) in futures.items() if not others & alive]:
                    task, _ = futures.pop(future)
                    future.cancel()
                    completed.add(submit(task))

    def _others(self, worker: str) -> set[str]:
        """The addresses of all workers but one."""
        end = time.monotonic() + SECOND_WORKER
        while True:
            others = {address for address, name in self._client.run(who, on_error="ignore").items() if name != worker}
            if others:
                return others
            if time.monotonic() > end:
                raise StudyError("points are computed again on another worker, and there is only one: start a second")
            # A worker that has died is being started anew.
            time.sleep(LOOK)


class _Watch:
    """Looks whether a cluster has workers: without any, its points would wait for ever."""

    def __init__(self, pool: DaskPool) -> None:
        self._pool = pool
        self._next = 0.0
        self._seen = time.monotonic()

    def look(self) -> bool:
        """Looks now and then; returns whether this call did.

        Raises `StudyError` where there has been no worker for a while.
        """
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + LOOK
        if self._pool.workers() > 0:
            self._seen = now
        elif now - self._seen > ABANDONED:
            raise StudyError(
                f"{self._pool.name} has had no worker for {ABANDONED:.0f} s. What is finished stays: "
                "start workers, and run the study again"
            )
        return True


class _Sent:
    """Files that workers do not see, held on the cluster: once on each worker, not sent with each
    task."""

    def __init__(self, client: Any, contents: Contents) -> None:
        self._client = client
        self._contents = contents
        self._left = DEATHS
        self._send()

    def _send(self) -> None:
        # Not by the content's hash: data sent before with the same hash may be about to be dropped.
        self._futures = {
            digest: self._client.scatter(content, broadcast=True, hash=False)
            for digest, content in self._contents.items()
        }

    def of(self, task: Task) -> dict[str, Any]:
        """The contents that a task needs."""
        return _of(task, self._futures)

    def again(self) -> bool:
        """Sends it again: it has died with the workers that had it. Not for ever."""
        if not self._contents or self._left == 0:
            return False
        self._left -= 1
        self._send()
        return True


def _needs_dask(error: ImportError) -> StudyError:
    return StudyError(
        f"clusters are reached by Dask, which is not here ({error.name}): {STUDIES}; or run the study on this machine, "
        "or on an executor"
    )


@contextlib.contextmanager
def pool_of(
    on: Union[str, concurrent.futures.Executor, Any, None], *, workers: Optional[int], memory: int
) -> Iterator[Pool]:
    """The workers that ``on`` means: none for this machine's cores, ``tcp://...`` for a scheduler,
    ``slurm``, an executor, or a client of Dask's. ``memory`` is the memory of a point (bytes).

    Raises `StudyError` for a cluster that is not there.
    """
    if on is None or on == "local":
        with LocalPool(_local(workers, memory)) as pool:
            yield pool
        return
    if isinstance(on, concurrent.futures.Executor):
        yield ExecutorPool(on, workers)
        return
    if isinstance(on, str) and on != "slurm" and "://" not in on:
        where = '"local", "tcp://HOST:PORT" of a Dask scheduler, or "slurm"'
        raise StudyError(f"a study cannot run on {on!r}; write {where}")
    try:
        import distributed
    except ImportError as error:
        raise _needs_dask(error) from error
    if isinstance(on, distributed.Client):
        yield DaskPool(on, "a Dask cluster")
        return
    import dask

    with dask.config.set(SETTINGS), contextlib.ExitStack() as stack:
        if on == "slurm":
            yield DaskPool(_slurm(stack, workers, memory), "Slurm")
        elif isinstance(on, str):
            yield DaskPool(_existing(stack, on), on)
        else:
            raise StudyError(
                f"a study cannot run on {type(on).__name__}; give an executor of `concurrent.futures`, a client of "
                "Dask's, or a text"
            )


def _local(workers: Optional[int], memory: int) -> int:
    """The number of points that this machine computes at a time.

    Raises `StudyError` where its memory does not suffice for one.
    """
    cores = len(os.sched_getaffinity(0))
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory > has:
        raise StudyError(
            f"a point takes {memory / 2**30:.1f} GiB of memory, and this machine has {has / 2**30:.1f}; "
            "say `memory` in the study if that is wrong, or run it --on a cluster"
        )
    return workers or max(1, min(cores, has // memory))


def _existing(stack: contextlib.ExitStack, address: str) -> Any:
    import distributed

    try:
        client = stack.enter_context(distributed.Client(address, timeout=CONNECT))
    except (OSError, TimeoutError, ValueError) as error:
        raise StudyError(
            f"no Dask scheduler answers at {address} ({error}); start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS --nthreads 1`"
        ) from error
    except TypeError as error:
        # Dask's own, of `tls://` without certificates.
        raise StudyError(
            f"the Dask scheduler at {address} cannot be reached: {error}; name the certificates in Dask's "
            "configuration, distributed.comm.tls, or give a client of Dask's"
        ) from error
    if not client.nthreads():
        raise StudyError(f"the scheduler at {address} has no workers; start some: `dask worker {address} --nthreads 1`")
    return client


def _slurm(stack: contextlib.ExitStack, workers: Optional[int], memory: int) -> Any:
    import distributed

    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError as error:
        raise _needs_dask(error) from error
    if shutil.which("sbatch") is None:
        raise StudyError("there is no Slurm here: `sbatch` is not in PATH; start the study where jobs are submitted")
    # Queue, account and time limit are the site's: ~/.config/dask/jobqueue.yaml.
    try:
        cluster = stack.enter_context(SLURMCluster(cores=1, processes=1, memory=f"{-(-memory // 2**20)}MiB"))
        cluster.scale(jobs=workers or 1)
    except (OSError, RuntimeError, ValueError) as error:
        raise StudyError(f"Slurm does not take the workers: {error}") from error
    client = stack.enter_context(distributed.Client(cluster))
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError as error:
        raise StudyError(f"no worker has started within {FIRST_WORKER:.0f} s; look at `squeue`") from error
    return client
