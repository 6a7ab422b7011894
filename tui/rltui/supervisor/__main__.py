"""`python -m rltui.supervisor OUTPUT_DIR`: the supervisor of the experiment that lies there."""

# ruff: noqa: E402 - the first statements concern the imports
from __future__ import annotations

import gc
import sys

gc.disable()  # what is loaded stays, and is frozen below: looking through it took a seventh of the start
# No TLS is spoken here: without OpenSSL, which asyncio and hashlib would load, it is 5 MB smaller.
sys.modules.update(dict.fromkeys(("ssl", "_hashlib")))  # type: ignore[arg-type]  # None: cannot be imported

import asyncio
import logging
import logging.handlers
import os
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rltui import paths
from rltui.base.tasks import run_forever
from rltui.errors import ConflictError, RltuiError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import new_socket_path
from rltui.services.own_files import FileLock
from rltui.services.tmux import TmuxHost
from rltui.supervisor.alerts import deliver_alerts
from rltui.supervisor.api_server import ApiServer
from rltui.supervisor.gpu.watch import watch_gpus
from rltui.supervisor.guards import guard_folder, guard_socket, leave_when_idle, leave_when_updated
from rltui.supervisor.runs.index import IndexFeed
from rltui.supervisor.stalls import watch_stalls, watch_starts
from rltui.supervisor.supervisor import Supervisor
from rltui.supervisor.watches import (
    follow_config,
    follow_logs,
    follow_metrics,
    record_metrics,
    watch_checkpoints,
    watch_disk,
)

logger = logging.getLogger("rltui.supervisor")

THREADS = 3
"""Size of the pool for `asyncio.to_thread`: probes, searches of `/proc`. Every thread costs a heap of its
own.
"""


def main() -> int:
    """Run until told to shut down. An error that ends it is logged as CRITICAL, which a waiting client looks
    for.
    """
    control = ControlFolder(Path(sys.argv[1]))
    try:
        control.refuse_foreign()
    except ConflictError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    logging.basicConfig(
        handlers=[logging.handlers.WatchedFileHandler(control.supervisor_log)],  # it may be deleted
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        record = control.read_record()
        if record is None:
            raise RltuiError(f"{control.record_file} is missing")
        lock = FileLock(control.lock_file)
        if not lock.acquire():
            raise ConflictError(f"{record.name} already has a supervisor")
        asyncio.run(_supervise(record, lock))
    except ConflictError as error:
        logger.info("%s; leaving it to that one", error)
        return int(error.exit_code)
    except RltuiError as error:
        logger.critical("%s", error)
        print(error, file=sys.stderr)
        return int(error.exit_code)
    except Exception as error:
        logger.critical(
            "the supervisor failed; components go on, and the next client starts a new one", exc_info=error
        )
        raise
    return 0


async def _supervise(record: ExperimentRecord, lock: FileLock) -> None:
    supervisor = Supervisor(record, tmux=TmuxHost(paths.tmux_socket()))
    runtime = supervisor.runtime
    server = ApiServer(supervisor, partial(new_socket_path, record))
    supervisor.adopt()
    await server.open()
    gc.collect()
    gc.freeze()  # what is loaded now stays: looking through it took 30 ms of every 40 readings of the GPUs
    gc.enable()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="work"))
    sigterm = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, sigterm.set)
    print(f"supervisor of {record.name}: pid {os.getpid()}, {record.output_dir}", flush=True)
    work_by_name: dict[str, Callable[[], Awaitable[None]]] = {
        loop_function.__name__: partial(loop_function, runtime)
        for loop_function in (
            follow_metrics,
            record_metrics,
            follow_logs,
            follow_config,
            watch_gpus,
            watch_starts,
            watch_stalls,
            watch_disk,
            deliver_alerts,
        )
    }
    feed = IndexFeed(supervisor)
    work_by_name |= {
        "watch_checkpoints": partial(watch_checkpoints, runtime, supervisor.evals, supervisor.budget),
        "watch_budget": supervisor.budget.watch,
        "watch_reservations": runtime.processes.reservations.watch,
        "watch_orphans": runtime.processes.orphans.watch,
        "watch_servers": runtime.servers.watch,
        "run_evals": supervisor.evals.run,
        "guard_folder": partial(guard_folder, supervisor, lock),
        "feed_index": feed.watch,
        "guard_socket": partial(guard_socket, server),
        "leave_when_idle": partial(leave_when_idle, supervisor, server),
        "leave_when_updated": partial(leave_when_updated, supervisor, server),
    }
    watch_tasks = [
        asyncio.create_task(run_forever(loop_function, name, runtime.events.internal_error), name=name)
        for name, loop_function in work_by_name.items()
    ]
    end_tasks = [
        asyncio.create_task(supervisor.commands.finished.wait(), name="ended"),
        asyncio.create_task(sigterm.wait(), name="SIGTERM"),
    ]
    try:
        await asyncio.wait(end_tasks, return_when=asyncio.FIRST_COMPLETED)
        if sigterm.is_set() and server.code.is_replaced:
            text = "rltui was updated: a new supervisor takes over; components keep running"
            runtime.events.journal.add("supervisor", text)
    finally:
        for task in (*watch_tasks, *end_tasks):
            task.cancel()
        runtime.config.close()
        await feed.close()
        if supervisor.commands.finished.is_set():
            await supervisor.close_terminal()
        await server.close()  # last: clients take it for the end


if __name__ == "__main__":
    sys.exit(main())
