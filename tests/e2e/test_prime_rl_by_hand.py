"""Components that every layout of prime-rl has besides: a shell in its environment, and its dashboard."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import prime_box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]
DASHBOARD = """\
#!/bin/sh
[ "$1" = --help ] && exit
printf '\\n  prime-rl dashboard · %s\\n  http://localhost:7788\\n\\n' "$1"
exec sleep 1000
"""


def test_a_shell_has_the_programs_of_the_checkout_and_the_dashboard_its_link(box: Box) -> None:
    prime = prime_box(box, "C")
    prime.up("prime-rl")
    prime.done(
        "attach", "--shell", "-c", "trainer", "--detach", "--", "sh", "-c", "command -v trainer; sleep 1000"
    )
    programs = box.root / "prime-rl-c/.venv/bin"
    retry_until(lambda: f"{programs}/trainer" in prime.text("shell"))

    refusal = box.run("start", "-c", "dashboard", "--yes", "--wait")
    assert refusal.returncode == 5
    assert "dashboard --help` exited" in refusal.stderr
    (programs / "dashboard").write_text(DASHBOARD)
    (programs / "dashboard").chmod(0o755)
    prime.done("start", "-c", "dashboard", "--yes", "--wait")
    assert f"prime-rl dashboard · {prime.output}" in prime.text("dashboard")
    links = retry_until(lambda: box.status()["links"])
    assert [link["url"] for link in links] == ["http://localhost:7788"]
    prime.done("down", "one")
    assert not box.tagged("one")
