"""The GPU screen: devices, processes, and memory over time. Binds and forwards."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Container, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.base.text import duration, short_command, truncate
from rltui.core.experiment.api import Request
from rltui.core.gpu.report import GpuDevice, GpuHistories, GpuProcess, GpuReport, GpuShare
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.key_bindings import bind, keys
from rltui.ui.paragraphs import flow
from rltui.ui.requests import ConfirmableRequest
from rltui.ui.state import AppState
from rltui.ui.styles import CURSOR, CURSOR_SIGN, FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar, TitleLine
from rltui.ui.widgets.gpu_chart import FINE_RANGE_S, GpuChart, in_range, peak_text
from rltui.ui.widgets.gpu_marks import (
    Marks,
    freeable_lines,
    level_sparkline,
    owner_marks,
    share_label,
    source_lines,
    unread_lines,
    verdict_lines,
    warning_lines,
)
from rltui.ui.widgets.gpu_panel import brief_line, device_legend, dimmed
from rltui.ui.widgets.row_list import READING, Row, RowList, list_keys, note_row
from rltui.views.gpu.account import (
    OTHERS,
    VIEW,
    Holder,
    can_be_freed,
    device_details,
    process_holders,
    short_name,
    stale_age_s,
)

_WIDE_DEVICE = 100
"""A device's line of this width has its name and recent use too."""
_NAME_WIDTH = 18
_SPARKLINE_WIDTH = 24


def _device_rows(
    report: GpuReport | None, width: int, selected: str | None, *, is_stale: bool
) -> tuple[Row, ...]:
    """A row per device, keyed by `GpuDevice.key`, under a heading where it is another host's."""
    if report is None:
        return READING
    rows: list[Row] = []
    if not report.available or not report.devices:
        reason = clean_line(report.reason or "no device found")
        rows.append(note_row(f"No GPUs: {reason}", width))
    marks = owner_marks(report)
    label_width = max((len(device.label) for device in report.devices), default=0)
    silent = {source.name for source in report.sources if source.problem}
    host = ""
    for device in report.devices:
        if device.host != host:
            host = device.host
            rows.append(Row(None, (Content.styled(f"{clean_line(host)}:", FAINT),)))
        lines = _lines(device, width, marks, label_width, is_selected=device.key == selected)
        if is_stale or host in silent:
            lines = [dimmed(line) for line in lines]
        rows.append(Row(device.key, tuple(lines)))
    if silent_lines := source_lines(report, width):
        rows.append(Row(None, tuple(silent_lines)))
    return tuple(rows)


def _lines(
    device: GpuDevice, width: int, marks: Marks, label_width: int, *, is_selected: bool
) -> list[Content]:
    cursor = Content(CURSOR if is_selected else "  ")
    width -= len(CURSOR)
    if device.problem:
        first, *more = unread_lines(device, width)
        return [cursor + first, *(Content("  ") + line for line in more)]
    first = cursor + _overview(device, width, marks, label_width)
    if not is_selected:
        return [first]
    below = [
        *device_legend(device, width - 2, marks),
        *flow(
            [Content.styled(text, FAINT) for text in map(clean_line, device_details(device))],
            width - 2,
            gap=" · ",
        ),
        *warning_lines([device], width - 2, has_names=False),
    ]
    return [first, *(Content("    ") + line for line in below)]


def _overview(device: GpuDevice, width: int, marks: Marks, label_width: int) -> Content:
    if width < _WIDE_DEVICE:
        return brief_line(device, width, marks, label_width)
    name = f" {truncate(short_name(clean_line(device.name)), _NAME_WIDTH):<{_NAME_WIDTH}}"
    graph = level_sparkline(device.recent, _SPARKLINE_WIDTH).rjust(_SPARKLINE_WIDTH)
    room = width - len(name) - _SPARKLINE_WIDTH - 1
    line = brief_line(device, room, marks, label_width)
    return Content.assemble(line, " ", (graph, "$text-success"), (name, FAINT))


_COLUMNS = VIEW.named(("pid", "user", "owner", "kind", "memory", "part", "command"), is_brief=True)
_PID, _USER, _KIND, _MEMORY, _PART = 9, 9, 4, 10, 6
_FIXED = _PID + _USER + _MEMORY + _PART
_WIDE_PROCESS = 90
"""A process is described at more length in a line of this width."""


def _widths(width: int) -> tuple[int, int]:
    """Cells for what it is, and for its kind, which a narrow line leaves out."""
    return (32, _KIND) if width >= _WIDE_PROCESS else (26, 0)


def _why_left_alone(process: GpuProcess, host: str) -> str | None:
    """The owner of a process that is not for us to end; `None` where it may be ended."""
    pid = f"pid {process.pid}"
    if host:
        return f"{pid} runs on {clean_line(host)}; end the process there"
    if can_be_freed(process):
        return None
    match process.owner:
        case "component":
            component = clean_line(process.component or "a component")
            return f"{pid} belongs to {component} of this experiment; {key_of('component.stop')} stops it"
        case "experiment":
            return f"{pid} belongs to the experiment {clean_line(process.experiment or '?')}; not ended"
        case "other":
            return f"{pid} belongs to {clean_line(process.user or 'another user')}; not ended"
        case _:
            return f"{pid} has an unknown owner; not ended"


def _process_heading(width: int) -> Content:
    what_width, kind_width = _widths(width)
    texts = [
        "  pid".ljust(_PID),
        "user".ljust(_USER),
        "what".ljust(what_width),
        "kind"[:kind_width],
        "memory".rjust(_MEMORY),
    ]
    line = "".join([*texts, "%".rjust(_PART), "  command"])
    return Content.styled(truncate(line, width), FAINT)


def _process_rows(
    device: GpuDevice | None, width: int, selected: str | None, marks: Marks
) -> tuple[Row, ...]:
    """A row per process, keyed by its pid, largest first."""
    if device is None:
        return ()
    if not device.processes:
        text = "" if device.problem else "no processes listed"
        return (Row(None, (Content.styled(f"  {text}", FAINT),)),)
    return tuple(
        Row(
            VIEW.key(holder),
            (_line(holder, width, marks, is_selected=VIEW.key(holder) == selected),),
        )
        for holder in process_holders(device)
    )


def _line(holder: Holder, width: int, marks: Marks, *, is_selected: bool) -> Content:
    process = holder.process
    assert process is not None, "only processes are listed"
    pid, user, name, kind, memory, share, command = (column.cell(holder, 0.0) for column in _COLUMNS)
    what_width, kind_width = _widths(width)
    mark = marks[share_label(_share(process))]
    room = max(0, width - _FIXED - what_width - kind_width - 2)
    return Content.assemble(
        f"{CURSOR_SIGN if is_selected else ' '} {pid.text}".ljust(_PID),
        truncate(clean_line(user.text or "?"), _USER - 1).ljust(_USER),
        (f"{mark.glyph} ", mark.style),
        (
            truncate(clean_line(name.text), what_width - 3).ljust(what_width - 2),
            STYLES[name.role] if name.role else "",
        ),
        kind.text.ljust(_KIND)[:kind_width],
        memory.text.rjust(_MEMORY),
        share.text.rjust(_PART),
        (f"  {short_command(clean_line(command.text), room)}", FAINT),
    )


def _share(process: GpuProcess) -> GpuShare:
    return GpuShare(
        owner=process.owner, experiment=process.experiment, component=process.component, user=process.user
    )


_AGE_INTERVAL_S = 1.0
_MIN_HISTORY_INTERVAL_S = 2.0
"""The history is asked for as often as there are samples, but not more often than this."""


class GpuScreen(BaseScreen):
    """Textual 8.2 keeps what a removed screen has painted, about 1 MB (`StylesCache.get_inner_outer`)."""

    CSS_PATH: ClassVar = ["gpus.tcss"]
    BINDINGS = keys(
        KeyContext.GPUS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.PROCESS_FREE, "free_process",
             "End your process under the cursor; asks first",
             footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.PANE_NEXT, "app.focus_next"),
        bind(verbs.PANE_PREVIOUS, "app.focus_previous"),
        bind(verbs.ALL, "scale(2)", "Show memory over all time"),
        bind(verbs.SCALE_CLOSER, "scale(0.5)", "Show memory of the last ten minutes", footer=Footer.YES),
        bind(verbs.SCALE_WIDER, "scale(2)", "Show memory over all time", footer=Footer.YES),
        bind(verbs.BACK, "show_overview", footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 - as Textual declares it

    place = KeyContext.GPUS
    can_free: reactive[bool] = reactive(False, init=False, bindings=True)

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self.state.watch("gpus", self._show_report)
        self.state.watch("connection", self._update_age)
        self._marks: Marks = {}
        self._histories = GpuHistories()
        self._is_stale = False
        self._history_problem = ""
        self._title = TitleLine(id="gpu-title")
        self._devices = RowList(self._device_rows, id="gpu-devices")
        self._notes = Static(id="gpu-notes", markup=False)
        self._processes_box = Vertical(id="gpu-processes-box")
        self._process_heading = Static(id="gpu-process-heading", markup=False)
        self._processes = RowList(self._process_rows, id="gpu-processes")
        self._chart_box = Vertical(id="gpu-chart-box")
        self._chart = GpuChart()

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._devices
        yield self._notes
        with Container(id="gpu-lower"):
            with self._processes_box:
                yield self._process_heading
                yield self._processes
            with self._chart_box:
                yield self._chart

    def on_mount(self) -> None:
        self._devices.focus()
        self.set_interval(_AGE_INTERVAL_S, self._update_age, name="age")

    def on_screen_resume(self) -> None:
        in_background(self, self._follow_history, group="history")
        self._show_report()

    # values in

    def _update_age(self) -> None:
        if self.is_open:
            self._update_title()

    def _show_report(self) -> None:
        if not self.is_open:
            return
        report = self.state.gpus
        self._marks = {} if report is None else owner_marks(report)
        self._update_title()
        self._devices.reload()
        if self.aim:
            self._go_to_process(int(self.aim))
        self._show_device()
        self._show_notes()

    def _show_notes(self) -> None:
        width, report = self.size.width - 2, self.state.gpus
        lines = [] if report is None else verdict_lines(report.verdicts, width)
        if report is not None and len(report.devices) > 1:
            lines.extend(freeable_lines(report, width, ""))
        self._notes.set_class(bool(lines), "-shown")
        self._notes.update(Content("\n").join(lines))

    def _update_title(self) -> None:
        report = self.state.gpus
        driver = clean_line(report.driver or "") if report is not None else ""
        interval_s = report.interval_s if report is not None else None
        facts = (f"driver {driver}" if driver else "", f"every {interval_s:g} s" if interval_s else "")
        age_s = None if report is None else stale_age_s(report, self.state.clock())
        old = None if age_s is None else f"{duration(age_s)} old"
        self._title.update(self.state.heading("GPUs", *((fact, FAINT) for fact in facts), problem=old))
        if self._is_stale != (age_s is not None):
            self._is_stale = age_s is not None
            self._devices.reload()

    async def _follow_history(self) -> None:
        while True:
            try:
                self._histories = await self.experiment.gpu_history()
                self._history_problem = ""
            except RltuiError as error:
                self._history_problem = f"⚠ {clean_line(error.title)}"
            self._show_chart()
            interval_s = (self.state.gpus and self.state.gpus.interval_s) or 0.0
            await asyncio.sleep(max(_MIN_HISTORY_INTERVAL_S, interval_s))

    def _show_chart(self) -> None:
        chart, device = self._chart, self._device
        chart.show_device(device, self._marks)
        key = "" if device is None else device.key
        chart.history = next((item for item in self._histories.histories if item.device == key), None)
        notes = ["whole run" if chart.range_s is None else "last 10 minutes"]
        if chart.history is not None and (peak := peak_text(in_range(chart.history, chart.range_s))):
            notes.append(peak)
        if chart.history is not None and any(series.label == OTHERS for series in chart.history.series):
            notes.append(f"{self._marks[OTHERS].glyph} {OTHERS}")
        if self._history_problem:
            notes.append(self._history_problem)
        self._chart_box.border_title = self._heading("Memory", device, " · ".join(notes))

    @staticmethod
    def _heading(title: str, device: GpuDevice | None, more: str = "") -> Content:
        where = "" if device is None else f" of GPU {device.label}"
        host = "" if device is None or not device.host else f" of {clean_line(device.host)}"
        return Content.assemble((f"{title}{where}{host}", "bold"), (f" · {more}" if more else "", FAINT))

    # rows

    @property
    def _device(self) -> GpuDevice | None:
        devices = () if self.state.gpus is None else self.state.gpus.devices
        return next((device for device in devices if device.key == self._devices.key), None)

    @property
    def _process(self) -> GpuProcess | None:
        processes = () if self._device is None else self._device.processes
        return next((process for process in processes if str(process.pid) == self._processes.key), None)

    def _device_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        return _device_rows(self.state.gpus, width, selected, is_stale=self._is_stale)

    def _process_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        self._process_heading.update(_process_heading(width))
        return _process_rows(self._device, width, selected, self._marks)

    def _go_to_process(self, pid: int) -> None:
        """Waits until the process has been read."""
        for device in () if self.state.gpus is None else self.state.gpus.devices:
            if not device.host and any(process.pid == pid for process in device.processes):
                self._devices.go_to(device.key)
                self._processes.reload()
                self._processes.go_to(str(pid))
                self._processes.focus()
                if self._processes.key == str(pid):  # else the list is not laid out yet, and moves once it is
                    self.aim = ""
                return

    @on(RowList.Moved, "#gpu-devices")
    def _show_device(self) -> None:
        self._processes_box.border_title = self._heading("Processes", self._device)
        self._processes.reload()
        self._look_at_process()
        self._show_chart()

    @on(RowList.Moved, "#gpu-processes")
    def _look_at_process(self) -> None:
        if self.aim:
            self._go_to_process(int(self.aim))
        is_free = self._process is not None and self._why_left_alone() is None
        self.can_free = is_free and not self.experiment.readonly

    # keys

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The footer shows only keys that work now; a key that does not still gives its reason."""
        return {
            key: binding
            for key, binding in super().active_bindings.items()
            if self.can_free or binding.binding.id != "process.free"
        }

    def _why_left_alone(self) -> str | None:
        process, device = self._process, self._device
        return None if process is None or device is None else _why_left_alone(process, device.host)

    @property
    def moved_list(self) -> RowList:
        return self.focused if isinstance(self.focused, RowList) else self._devices

    def action_scale(self, factor: float) -> None:
        self._chart.range_s = FINE_RANGE_S if factor < 1 else None
        self._show_chart()

    def action_free_process(self) -> None:
        """Asks, default no; where that cannot be, says why."""
        if (process := self._process) is None:
            return
        if not self.experiment.readonly and (reason := self._why_left_alone()) is not None:
            self.notify(reason, markup=False)
            return
        user = f" of user {clean_line(process.user)}" if process.user else ""
        heading = f"End pid {process.pid}{user}?"
        request = Request(action="free", pids=(process.pid,))
        self.commands.request(ConfirmableRequest(request, heading, verb="End", danger=True))

    def left(self) -> None:
        self.workers.cancel_group(self, "history")
