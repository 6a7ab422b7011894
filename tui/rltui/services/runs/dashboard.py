"""Shows a place of a run in its framework's living dashboard."""

from __future__ import annotations

import http
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltui.base.text import truncate
from rltui.base.values import InvalidValueError, Value, from_json
from rltui.core import hints
from rltui.core.experiment.dashboard import DashboardPage, DashboardPlace
from rltui.core.logs.lines import plain_text
from rltui.errors import NotFoundError, RltuiError, UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.dashboard import Dashboard
from rltui.frameworks.registry import get as framework_named
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import name_if_needed
from rltui.services.http import get, post
from rltui.services.logs.links import safe_url
from rltui.services.own_files import read_regular
from rltui.services.runs.dashboard_folders import DashboardFolders
from rltui.services.runs.provenance import checkout_of

_ANSWER_S = 10.0
"""It looks into every run first."""
_LIST_BYTES, _REPLY_BYTES, _DAEMON_BYTES = 16 << 20, 1 << 16, 1 << 16
_LONGEST_DETAIL = 200
_NO_SUCH_PATH = ("Not Found", "Method Not Allowed")
"""What a release says that cannot be told what to show."""


class _Daemon(Value):
    pid: int
    url: str


class _Listed(Value):
    name: str


class _Runs(Value):
    runs: tuple[_Listed, ...]
    output_dir: str = ""
    """Folders that it was started with, beside those of the list; separated by a comma and a space."""


class _Reply(Value):
    clients: int = 0
    """Tabs that show the place."""
    detail: Any = None
    """What is wrong, or of a command that waits for a tab a table."""


def show_in_dashboard(record: ExperimentRecord, place: DashboardPlace, *, may_add: bool) -> DashboardPage:
    """Have the dashboard show it in all its tabs; without any, in the next one. Blocks.

    `may_add`: if it does not show the run's folder yet, have it.

    Raises:
        UsageError: if there is none; says how to get one.
        NotFoundError: if it has no such run, or not that place of it.
        RltuiError: if it cannot be asked.
    """
    framework = framework_named(record.framework)
    if (dashboard := framework.dashboard) is None:
        raise UsageError(f"runs of {framework.title} have no dashboard of their own")
    if (url := _living_url(dashboard)) is None:
        raise _none_lives(record, framework, dashboard)
    run = _name_there(dashboard, url, Path(record.run_dir).resolve(), may_add=may_add)
    page = url + dashboard.fragment(run, place)
    status, reply = _send(dashboard, url, run, place)
    if status == http.HTTPStatus.NOT_FOUND and place.tab == "metrics" and place.step is not None:
        status, reply = _send(dashboard, url, run, place.replace(step=None))  # it has no rollouts
    detail = reply.detail
    if detail in _NO_SUCH_PATH or (status == http.HTTPStatus.CONFLICT and isinstance(detail, dict)):
        return DashboardPage(url=page)
    if status == http.HTTPStatus.OK:
        return DashboardPage(url=page, tabs=reply.clients)
    text = truncate(plain_text(str(detail)), _LONGEST_DETAIL)
    kind = NotFoundError if status == http.HTTPStatus.NOT_FOUND else RltuiError
    raise kind(f"{dashboard.title}: {text or f'status {status}'}")


def _living_url(dashboard: Dashboard) -> str | None:
    with suppress(OSError, RuntimeError, InvalidValueError, OverflowError):
        content = read_regular(Path.home() / dashboard.folder / dashboard.daemon_file, _DAEMON_BYTES)
        daemon = from_json(_Daemon, content)
        if daemon.pid > 0 and (url := safe_url(daemon.url)) is not None:
            os.kill(daemon.pid, 0)
            return url.rstrip("/")
    return None


def _none_lives(record: ExperimentRecord, framework: Framework, dashboard: Dashboard) -> UsageError:
    assert framework.checkout is not None, "a framework with a dashboard has checkouts"
    checkout = checkout_of(record, framework.checkout)
    if dashboard.trait not in (checkout.traits() or ()):
        return UsageError(
            f"{dashboard.title} is not running, and no checkout near {record.workspace} has it",
            hint="update the checkout: it may be too old",
        )
    by_rltui = hints.START_DASHBOARD(name=name_if_needed(record.name))
    start = f"`{dashboard.start}` there" if record.observed else f"`{by_rltui}`"
    return UsageError(
        f"{dashboard.title} is not running",
        hint=f"`{dashboard.install}` in {checkout.project} installs it, {start} starts it",
    )


def _name_there(dashboard: Dashboard, url: str, run_dir: Path, *, may_add: bool) -> str:
    """The name that the dashboard has for the run. Raises as `show_in_dashboard`."""
    folders = DashboardFolders(dashboard)
    runs = _runs(dashboard, url)
    shown = {*folders.entries(), *runs.output_dir.split(", ")}
    parent = run_dir.parent
    if str(parent) not in shown and may_add:
        folders.add(parent)
        shown.add(str(parent))
        runs = _runs(dashboard, url)
    names = {run.name for run in runs.runs}
    qualified = f"{parent.name}:{run_dir.name}"
    name = qualified if qualified in names else run_dir.name
    if str(parent) not in shown or name not in names or not folders.is_run(run_dir):
        raise NotFoundError(
            f"{dashboard.title} at {url} does not have {run_dir} yet",
            hint="a run is there as soon as it has written logs or metrics",
        )
    twins = [
        other for other in map(Path, shown) if other.name == parent.name and (other / run_dir.name).is_dir()
    ]
    if name == qualified and len({other.resolve() for other in twins}) > 1:
        raise NotFoundError(
            f"{dashboard.title} shows only one of {' and '.join(str(twin / run_dir.name) for twin in twins)}",
            hint="rename one of their folders",
        )
    return name


def _runs(dashboard: Dashboard, url: str) -> _Runs:
    try:
        return from_json(_Runs, get(url + dashboard.runs_path, timeout_s=_ANSWER_S, limit_bytes=_LIST_BYTES))
    except (OSError, InvalidValueError) as error:
        raise RltuiError(f"{dashboard.title} at {url} does not respond: {error}") from error


def _send(dashboard: Dashboard, url: str, run: str, place: DashboardPlace) -> tuple[int, _Reply]:
    """Have it show the place; the status of its reply, too."""
    body, view = dashboard.command(run, place), url + dashboard.view_path
    try:
        status, _, content = post(view, body, timeout_s=_ANSWER_S, limit_bytes=_REPLY_BYTES)
        return status, from_json(_Reply, content)
    except (OSError, InvalidValueError) as error:
        raise RltuiError(f"{dashboard.title} at {url} does not respond: {error}") from error
