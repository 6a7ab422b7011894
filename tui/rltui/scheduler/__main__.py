"""`python -m rltui.scheduler` runs the scheduler of the queue. Only one runs, until the queue is done.

With `start` it has one started in the private tmux server, unless there is one. With `start-entry NAME` it is
the program that starts the run of the entry on stdin, in the environment that was stored with it.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from rltui import paths
from rltui.base.interpreter import module_command
from rltui.client.queue.commands import START, START_TIMEOUT_S, is_scheduler_running
from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.errors import ConflictError, RltuiError
from rltui.scheduler.queue_scheduler import START_ENTRY, QueueScheduler, start_entry
from rltui.services.actor import requester
from rltui.services.installation import SETTLED_S, LoadedCode
from rltui.services.own_files import FileLock, file_fingerprint, make_folder
from rltui.services.runs.queue_file import change_queue, read_queue, scheduler_lock

logger = logging.getLogger("rltui.queue")

_SESSION = "_queue"
"""Session of the private tmux server. Names of experiments begin with a letter or digit."""
_RESTART_LOOP = 'while "$@"; [ $? -gt 128 ]; do sleep 1; done'
"""Shell loop that starts the scheduler again after a signal, such as that of the OOM killer, and after an
update of rltui.
"""
_UPDATED = 129
"""Exit code that has the loop start it again, with the code of now."""
_POLL_S = 0.05
_TAKE_S = 2.0
"""Time limit for the lock, which somebody may hold for a moment to see whether it is free."""
_POLL_ENTRIES_S = 2.0
"""Poll interval of running entries."""
_WAKE_S = 0.25
"""Poll interval of the file's changes, and of the ends of children."""


def main() -> int:
    match sys.argv[1:]:
        case [str(verb)] if verb == START:
            return _report(_start)
        case [str(verb), _] if verb == START_ENTRY:
            return _report(lambda: start_entry(QueueEntry.from_json(sys.stdin.read())))
    return _supervise()


def _report(work: Callable[[], None]) -> int:
    """Do the work; an error of it is on stderr, and its exit code returned."""
    try:
        work()
    except RltuiError as error:
        print("rltui: " + "; ".join(filter(None, (error.title, *error.details, error.hint))), file=sys.stderr)
        return int(error.exit_code)
    return 0


def _start() -> None:
    from rltui.services.tmux import SUPERVISOR_WINDOW, TmuxHost  # libtmux, which a supervisor need not load

    tmux = TmuxHost(paths.tmux_socket())
    tmux.check()
    make_folder(paths.queue_folder(), mode=0o700)
    argv = ["/bin/sh", "-c", _RESTART_LOOP, "queue", *module_command("rltui.scheduler")]
    until = time.monotonic() + START_TIMEOUT_S
    starter = FileLock(paths.queue_folder() / "starter.lock")
    while not is_scheduler_running() and not read_queue().is_idle:
        if time.monotonic() > until:
            title = "the scheduler of the queue did not start"
            raise RltuiError(title, hint=f"see {paths.queue_folder()}/scheduler.log")
        if starter.acquire():  # else somebody else starts it
            with contextlib.suppress(ConflictError):  # the one before is about to go, or to be started again
                if tmux.has_session(_SESSION):
                    tmux.start_window(_SESSION, SUPERVISOR_WINDOW, argv, cwd=str(paths.queue_folder()))
                else:
                    tmux.start_supervisor(_SESSION, argv, cwd=str(paths.queue_folder()), env={})
        time.sleep(_POLL_S)


def _supervise() -> int:
    """Mind the queue until nothing is left to do, or SIGTERM. The runs go on whatever becomes of it."""
    make_folder(paths.queue_folder(), mode=0o700)
    logging.basicConfig(
        handlers=[logging.handlers.WatchedFileHandler(paths.queue_folder() / "scheduler.log")],
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lock = scheduler_lock()
    until = time.monotonic() + _TAKE_S
    while not lock.acquire():
        if time.monotonic() > until:
            logger.info("the queue already has a scheduler; leaving it to that one")
            return 0
        time.sleep(_WAKE_S / 5)
    leave = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leave.set())
    print(f"scheduler of the queue: pid {os.getpid()}, {paths.queue_folder()}", flush=True)
    logger.info("scheduler started, pid %d", os.getpid())
    code = LoadedCode()
    try:
        _schedule_until_done(QueueScheduler(), lock, leave, code)
    except Exception as error:
        if code.is_replaced:  # what it imports only now is gone
            logger.info("rltui was updated: %r", error)
            leave.wait(SETTLED_S)
            return _UPDATED
        logger.critical("the scheduler of the queue failed; running runs continue", exc_info=error)
        raise
    logger.info("scheduler ended")
    return _UPDATED if code.is_replaced and not leave.is_set() else 0


def _schedule_until_done(
    scheduler: QueueScheduler, lock: FileLock, leave: threading.Event, code: LoadedCode
) -> None:
    """Run until the queue is done, `leave` is set, an update has replaced the code, or the lock is another's,
    as after its folder was deleted.
    """
    last_error = ""
    while lock.is_held() and not leave.is_set() and not code.is_update_complete():
        if code.is_replaced:  # what is imported or started only now may be gone: the next one looks
            leave.wait(_POLL_ENTRIES_S)
            continue
        last_fingerprint = file_fingerprint(paths.queue_file())
        try:
            scheduler.look()
            if scheduler.is_idle:
                _give_up(lock)
        except RltuiError as error:  # a disk that is full, a file that cannot be read: it may pass
            if str(error) != last_error:
                logger.error("%s", error)
            last_error = str(error)
        until = time.monotonic() + _POLL_ENTRIES_S
        while time.monotonic() < until and file_fingerprint(paths.queue_file()) == last_fingerprint:
            if scheduler.has_ended_programs() or leave.wait(_WAKE_S):
                break


def _give_up(lock: FileLock) -> None:
    """Release the lock if nothing is to do: whoever adds something after that finds no scheduler."""

    def release(queue: RunQueue) -> RunQueue:
        if queue.is_idle:
            lock.release()
        return queue

    change_queue(release, author=requester)


if __name__ == "__main__":
    sys.exit(main())
