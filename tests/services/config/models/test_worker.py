from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.services.config.models.checkouts import MODEL, Box, is_alive
from tests.waiting import retry_until

from rltui.services.config.models import FrameworkModels

Ask = Callable[..., FrameworkModels]
VALID = "max_steps = 3\n"
STARTS_ANOTHER = """
import os, subprocess
def busy(folder):
    child = subprocess.Popen(['sleep', '100'])
    with open(folder + '/pids.part', 'w') as file:
        file.write(f'{os.getpid()} {child.pid}')
    os.rename(folder + '/pids.part', folder + '/pids')
"""


@pytest.fixture
def pids(box: Box) -> Callable[[], list[int]]:
    """Of a process and its child, once they run."""
    path = box.root / "pids"
    box.write(STARTS_ANOTHER, "busy.py")

    def read() -> list[int]:
        retry_until(path.exists, timeout_s=30)
        return [int(word) for word in path.read_text().split()]

    return read


def on(box: Box, max_steps: int, act: str) -> str:
    """The model, which does something at this value."""
    lines = (
        "    @model_validator(mode='after')",
        "    def act(self):",
        f"        if self.max_steps == {max_steps}:",
        f"            {act}",
        "        return self",
    )
    return "\n".join((MODEL, *lines, ""))


def busy(box: Box, then: str) -> str:
    return f"import busy, time, os; busy.busy({str(box.root)!r}); {then}"


def gone(pids: list[int]) -> bool:
    return not any(map(is_alive, pids))


def test_who_hangs_is_ended_with_all_it_started(box: Box, ask: Ask, pids: Callable[[], list[int]]) -> None:
    box.write(on(box, 9, busy(box, "time.sleep(100)")))
    own = ask(answer_s=0.5)
    assert own.accepts(box.loaded(VALID))
    [found] = own.problems(box.loaded("max_steps = 9\n"))
    assert found.message == "not checked by prime-rl itself: no answer within 0.5 s"
    assert own.reason == "no answer within 0.5 s"
    assert retry_until(lambda: gone(pids()))
    assert own.accepts(box.loaded("max_steps = 4\n")), "another process answers"
    assert own.reason is None
    assert box.starts == 2


@pytest.mark.slow
def test_classes_that_do_not_come_up_are_not_waited_for_again(
    box: Box, ask: Ask, pids: Callable[[], list[int]]
) -> None:
    box.write(f"{busy(box, 'time.sleep(100)')}\n")
    own = ask(first_s=3.0)
    said = own.problems(box.loaded(VALID))
    assert "no answer within 3 s" in said[0].message
    assert retry_until(lambda: gone(pids()))
    assert own.problems(box.loaded(VALID)) == said
    assert own.schemas([]) == {}
    assert box.starts == 1
    box.write(MODEL)
    assert own.accepts(box.loaded(VALID)), "the checkout has changed"


def test_a_crash_in_the_middle_is_told_and_survived(box: Box, ask: Ask) -> None:
    box.write(on(box, 9, "import os; os.write(2, b'out of luck\\n'); os._exit(3)"))
    own = ask()
    assert own.accepts(box.loaded(VALID))
    [found] = own.problems(box.loaded("max_steps = 9\n"))
    assert found.message.endswith("not checked by prime-rl itself: exited 3: out of luck")
    assert own.accepts(box.loaded("max_steps = 4\n"))


def test_one_that_was_killed_is_replaced(box: Box, ask: Ask, pids: Callable[[], list[int]]) -> None:
    box.write(on(box, 3, busy(box, "pass")))
    own = ask()
    assert own.accepts(box.loaded(VALID))
    os.kill(pids()[0], signal.SIGKILL)
    assert own.accepts(box.loaded("max_steps = 4\n"))
    assert retry_until(lambda: gone(pids())), "what it started ended with it"


def test_an_idle_one_ends_with_all_it_started(box: Box, ask: Ask, pids: Callable[[], list[int]]) -> None:
    box.write(on(box, 3, busy(box, "pass")))
    own = ask(idle_s=0.2)
    assert own.accepts(box.loaded(VALID))
    assert retry_until(lambda: gone(pids()))
    assert retry_until(lambda: not Path(f"/proc/{pids()[0]}").exists()), "nor a zombie"
    assert own.accepts(box.loaded("max_steps = 4\n"))


def test_closing_ends_it_and_frees_who_waits(box: Box, ask: Ask, pids: Callable[[], list[int]]) -> None:
    box.write(on(box, 9, busy(box, "time.sleep(100)")))
    own, accepted = ask(), []
    loaded = box.loaded("max_steps = 9\n")
    waiting = threading.Thread(target=lambda: accepted.append(own.accepts(loaded)))
    waiting.start()
    left = pids()
    own.close()
    waiting.join(10)
    assert accepted == [False]
    assert retry_until(lambda: gone(left))
    assert not own.accepts(box.loaded(VALID)), "closed is closed"
    assert box.starts == 1


def test_it_ends_with_its_owner_even_in_the_middle(box: Box, pids: Callable[[], list[int]]) -> None:
    box.write(on(box, 9, busy(box, "time.sleep(100)")))
    loaded = box.loaded("max_steps = 9\n")
    owner = os.fork()
    if owner == 0:
        try:
            box.own().accepts(loaded)
        finally:
            os._exit(1)
    left = pids()
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    assert retry_until(lambda: gone(left))


def test_an_interpreter_that_does_not_even_listen_is_not_waited_for(box: Box, ask: Ask) -> None:
    Path(box.interpreter[0]).write_text("#!/bin/sh\nexec sleep 100\n")
    own = ask(first_s=0.5)
    assert not own.accepts(box.loaded(VALID + "# long\n" * 20_000))
    assert own.reason == "no answer within 0.5 s"
