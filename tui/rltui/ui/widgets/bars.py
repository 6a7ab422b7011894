"""The lines above and below the panes: what runs, what was left over, which keys work now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.binding import ActiveBinding
from textual.content import Content
from textual.events import Click
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from rltui.base.text import duration, format_number, gib, join_words, sparkline, truncate
from rltui.core.experiment.api import Curve, Orphan, Status
from rltui.core.experiment.servers import ServerStatus
from rltui.core.experiment.states import RUN_STATES, STALLED
from rltui.core.metrics.curve import curve_rows
from rltui.ui.actions import NO_KEY, Footer, key_of, uses
from rltui.ui.key_bindings import key_bindings
from rltui.ui.key_names import key_text
from rltui.ui.paragraphs import first_that_fits
from rltui.ui.styles import FAINT, SEPARATOR, STYLES, styled
from rltui.ui.text import clean_line, progress_bar, rate
from rltui.views.component import server_cells, waits_text
from rltui.views.experiment import state_cell
from rltui.views.orphan import brief_orphan, by_attempt, orphan_count, owner_text, ports_text

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class HeaderPart:
    """A piece of the line. Where the line is too narrow, the part of the highest rank goes first."""

    rank: int
    spans: tuple[tuple[str, str], ...]
    leads_to: str = ""
    """The action that a click on it is."""
    is_joined: bool = False
    """True if it belongs to the part before it: only a blank sets it apart."""

    @property
    def separator(self) -> tuple[str, str]:
        return (" ", "") if self.is_joined else SEPARATOR

    @property
    def width(self) -> int:
        """Cells, including the separator in front."""
        return len(self.separator[0]) + sum(len(text) for text, _ in self.spans)


_TO_RUNS, _TO_CONFIG = "show_screen('runs')", "show_screen('config')"
_TO_METRICS, _TO_EVENTS = "show_screen('metrics')", "show_screen('events')"
_NAME = " rltui "
_SEPARATOR = SEPARATOR[0]
"""None stands in front of the first part."""
_STATE = 1
"""Rank of the state, and of what goes only after all else: the step, and what is wrong."""
_AGENT_CELLS = 24
"""Room for the names of agents at work."""
_LEAST_STATE_CELLS = 10
"""Room for the word of a state and its sign."""


def _header_parts(status: Status, width: int, *, access: str, host: str, graph: bool) -> list[HeaderPart]:
    """Return the parts that `width` has room for."""
    name = f"{host}:{status.experiment}" if host else status.experiment
    state = state_cell(status.state, status.reason)
    progress = status.progress
    reward = status.reward if progress.reward is None else progress.reward
    to_trouble = next((f"focus_component({id_!r})" for id_ in status.reason.components), _TO_EVENTS)
    fragments = [
        HeaderPart(0, ((clean_line(name), ""),), _TO_RUNS),
        HeaderPart(_STATE, ((clean_line(state.text), f"bold {STYLES[state.role or 'faint']}"),), to_trouble),
    ]
    if status.observed:
        fragments.append(HeaderPart(2, (("observed", FAINT),)))
    if status.agents:
        text = f"agent{'s' if len(status.agents) > 1 else ''} {', '.join(map(clean_line, status.agents))}"
        fragments.append(HeaderPart(2, ((truncate(text, _AGENT_CELLS), "bold $text-warning"),), _TO_EVENTS))
    if access:
        fragments.insert(1, HeaderPart(0, ((access, "bold $text-warning"),)))
    fragments.extend(_step_parts(status, max(8, min(24, width // 8))))
    moves = status.state == "running"
    if (target := progress.target) is not None and target.points:
        value = format_number(target.points[-1][1])
        fragments.append(HeaderPart(2, ((f"{target.title} ", FAINT), (value, "bold")), _TO_METRICS))
    elif reward is not None:
        fragments.append(HeaderPart(2, (("reward ", FAINT), (f"{reward:.2f}", "bold")), _TO_METRICS))
        if progress.reward_all is not None:
            of_all = f"all rollouts {progress.reward_all:.2f}"
            fragments.append(HeaderPart(5, ((of_all, FAINT),), _TO_METRICS))
        if graph and status.state != "done" and (sparks := sparkline(progress.rewards, 12)):
            fragments.append(HeaderPart(6, ((sparks, FAINT),), _TO_METRICS, is_joined=True))
    fragments.extend(_trouble_beside(status))
    if progress.eta_s is not None and moves:
        fragments.append(HeaderPart(3, (("ETA ", FAINT), (duration(progress.eta_s), "")), _TO_METRICS))
    if progress.tokens_per_s is not None and moves:
        fragments.append(HeaderPart(4, ((f"{rate(progress.tokens_per_s)} tok/s", FAINT),), _TO_METRICS))
    if progress.bottleneck is not None and moves:
        waits = progress.bottleneck
        text = waits_text(clean_line(waits.waits), waits.waits_for, waits.share_frac)
        fragments.append(HeaderPart(5, ((text, FAINT),), _TO_METRICS))
    fragments.append(HeaderPart(8, ((clean_line(status.title or status.framework), FAINT),), _TO_CONFIG))
    return _fitting(fragments, width - len(_NAME) + len(_SEPARATOR))


def _fitting(parts: list[HeaderPart], room: int) -> list[HeaderPart]:
    """The parts that `room` cells are enough for. The reason of the state is cut before the state goes."""
    while (excess := sum(part.width for part in parts) - room) > 0 and len(parts) > 1:
        last = max(parts, key=lambda part: part.rank)
        (text, style), *more = last.spans
        if last.rank == _STATE and len(text) - excess >= _LEAST_STATE_CELLS:
            cut = truncate(text, len(text) - excess)
            parts[parts.index(last)] = replace(last, spans=((cut, style), *more))
        else:
            parts.remove(last)
    return parts


def _step_parts(status: Status, bar_width: int) -> list[HeaderPart]:
    """The step with a bar: of the run, or of a job that prepares it, as long as that is at work."""
    progress = status.progress
    label, step = "step", status.step if progress.step is None else progress.step
    max_steps = status.max_steps if progress.max_steps is None else progress.max_steps
    for component in status.components:
        if component.prepares and component.step is not None:
            label, step, max_steps = f"{component.id} step", component.step, component.max_steps
    if step is None:
        return []
    of_all = f"/{max_steps}" if max_steps else ""
    parts = [HeaderPart(1, ((f"{label} ", ""), (str(step), "bold"), (of_all, "")), _TO_METRICS)]
    if max_steps:
        full, empty = progress_bar(step / max_steps, bar_width)
        percent = f" {100 * min(step, max_steps) // max_steps} %"
        spans = ((full, FAINT), (empty, "$border-blurred"), (percent, FAINT))
        parts.append(HeaderPart(7, spans, _TO_METRICS, is_joined=True))
    return parts


def _trouble_beside(status: Status) -> list[HeaderPart]:
    """The worst of what is wrong while the run goes on; after its end only an error."""
    worst = next(iter(status.progress.concerns), None)
    if worst is None or (RUN_STATES[status.state].has_ended and worst.severity != "error"):
        return []
    style = "$text-error" if worst.severity == "error" else STYLES[STALLED.role]
    return [HeaderPart(1, ((f"{STALLED.sign} {clean_line(worst.word)}", f"bold {style}"),), _TO_EVENTS)]


def header_line(
    status: Status, width: int, *, access: str = "", host: str = "", graph: bool = True
) -> Content:
    """The facts that matter most, as far as `width` allows. `graph`: with a graph of the newest rewards.

    `access`: text for a client that may only look. `host`: the machine, where it is another one.
    """
    spans: list[tuple[str, str]] = [(_NAME, "$accent")]
    for position, fragment in enumerate(_header_parts(status, width, access=access, host=host, graph=graph)):
        spans.append(fragment.separator if position else ("", ""))
        spans.extend(fragment.spans)
    return Content.assemble(*spans)


class HeaderBar(Widget):
    status: reactive[Status | None] = reactive(None)
    graph: reactive[bool] = reactive(True)

    def __init__(self, *, access: str = "", host: str = "") -> None:
        super().__init__()
        self._access, self._host = access, host

    def render(self) -> Content:
        if self.status is None:
            return Content.assemble((_NAME, "$accent"), ("connecting…", FAINT))
        return header_line(
            self.status, self.size.width, access=self._access, host=self._host, graph=self.graph
        )

    async def on_click(self, event: Click) -> None:
        if self.status is None:
            return
        x = event.x - len(_NAME) + len(_SEPARATOR)
        for fragment in _header_parts(
            self.status, self.size.width, access=self._access, host=self._host, graph=self.graph
        ):
            if 0 <= x < fragment.width and fragment.leads_to:
                await self.screen.run_action(fragment.leads_to)
            x -= fragment.width


class TitleLine(Static):
    """The first line of a screen but the overview: what it shows, and facts.

    Where it is too narrow the last facts leave as a whole; warnings stay.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - as Textual calls it
        super().__init__(id=id, classes="screen-title", markup=False)

    def render(self) -> Content:
        line = self.content if isinstance(self.content, Content) else Content(str(self.content))
        return fitting_facts(line, self.size.width)


def fitting_facts(line: Content, width: int) -> Content:
    """The line without the last facts that `width` has no room for."""
    facts = [*line.split(_SEPARATOR)]  # the list is Textual's own, which it keeps
    while line.cell_length > width:
        spare = next((fact for fact in reversed(facts[1:]) if not fact.plain.startswith("⚠")), None)
        if spare is None:
            return line.truncate(width, ellipsis=True)
        facts.remove(spare)
        line = Content(_SEPARATOR).join(facts)
    return line


_CURVE_ROWS = 3


_BESIDE_FROM_CELLS = 100
"""Least width with a second curve beside the rewards."""
_OUTLIERS_FRAC = 0.05
"""Share of the values at either end that may lie outside the scale, unless they are new."""
_NEW_FRAC = 0.1
_MANY_POINTS = 40


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest value, but for a few old outliers: a long run shows its newest part."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    ordered, new = sorted(finite), finite[-max(1, int(len(finite) * _NEW_FRAC)) :]
    skipped = int(len(ordered) * _OUTLIERS_FRAC) if len(ordered) >= _MANY_POINTS else 0
    return min(ordered[skipped], *new), max(ordered[-1 - skipped], *new)


def curve_lines(
    curve: Sequence[tuple[int, float]],
    width: int,
    title: str = "reward",
    unit: str = "",
    style: str = "$text-success",
) -> list[Content]:
    """The values of the whole run in three rows."""
    steps, values = [step for step, _ in curve], [value for _, value in curve]
    low, high = _scale(values)
    labels = (f" {title} {_label(high, unit)} ┤", "│", f"{_label(low, unit)} ┤")
    label_cells = max(map(len, labels))
    cells = max(1, width - label_cells - 1)
    x_span = (float(steps[0]), float(max(steps[-1], steps[0] + 1)))
    rows = curve_rows(steps, values, cells, _CURVE_ROWS, x_span=x_span, y_span=(low, high))
    return [
        Content.assemble((label.rjust(label_cells), FAINT), (row, style), " ")
        for label, row in zip(labels, rows, strict=True)
    ]


def _label(value: float, unit: str) -> str:
    """`0.62`, `98 %`."""
    return f"{format_number(value, unit)}{' %' if unit == 'frac' else ''}"


class RewardCurve(Widget):
    """The rewards of the whole run, or what it learns by without them, and where there is room another
    metric; takes no room unless it `is_wanted` and has two points.
    """

    curve: reactive[tuple[tuple[int, float], ...]] = reactive(())
    title: str = "reward"
    beside: reactive[Curve | None] = reactive(None)
    is_wanted: reactive[bool] = reactive(False)

    @property
    def is_shown(self) -> bool:
        return self.is_wanted and len(self.curve) > 1

    def watch_curve(self) -> None:
        self.set_class(self.is_shown, "-shown")

    watch_is_wanted = watch_curve

    async def on_click(self) -> None:
        await self.screen.run_action(_TO_METRICS)

    def render(self) -> Content:
        width, beside = self.size.width, self.beside
        if not self.curve:
            return Content("")
        if beside is None or width < _BESIDE_FROM_CELLS:
            return Content("\n").join(curve_lines(self.curve, width, self.title))
        left = curve_lines(self.curve, width - width // 2, self.title)
        right = curve_lines(beside.points, width // 2, clean_line(beside.title), beside.unit, FAINT)
        return Content("\n").join(first + second for first, second in zip(left, right, strict=True))


_ROWS_ON_TALL_SCREENS = 3
_TALL_ROWS = 36
"""A lower screen has one line for all of them."""


class ServerBar(Static):
    """A line for each inference server that somebody else runs; takes no room where there is none."""

    servers: reactive[tuple[ServerStatus, ...]] = reactive(())

    def watch_servers(self) -> None:
        self.set_class(bool(self.servers), "-shown")
        lines = (styled(server_cells(server.to_plain())) for server in self.servers)
        self.update(Content("\n").join(lines))


class ProposalBar(Static):
    """Shows what agents propose, and that they are paused; takes no room where there is neither."""

    def __init__(self, *, is_readonly: bool) -> None:
        super().__init__(markup=False)
        self._is_readonly = is_readonly

    def show(self, status: Status) -> None:
        resume = "" if self._is_readonly else f" · {key_of('agents.pause')} resumes"
        answer = "" if self._is_readonly else f" · {key_of('proposal.answer')} answers"
        lines = [f"⏸ {status.agents_paused}{resume}"] if status.agents_paused else []
        for proposal in status.proposals[:1]:
            number = f" · 1 of {len(status.proposals)}" if len(status.proposals) > 1 else ""
            what = " · ".join(filter(None, [proposal.text, proposal.reason]))
            lines.append(f"? {proposal.by.short} proposes{number}{answer}: {what}")
        self.set_class(bool(lines), "-shown")
        self.update(Content("\n".join(map(clean_line, lines))))


class OrphanBar(Static):
    """Shows the newest `orphans`, getting older; takes no room where there are none."""

    orphans: reactive[tuple[Orphan, ...]] = reactive(())

    def __init__(self, *, hint: str, clock: Callable[[], float]) -> None:
        """`hint` closes the last line: which key ends them."""
        super().__init__(markup=False)
        self._hint = hint
        self._clock = clock
        self._reading_time = 0.0
        self._lines: list[str] = []

    def watch_orphans(self) -> None:
        self._reading_time = self._clock()
        self.set_class(bool(self.orphans), "-shown")
        self.update_ages()

    def on_resize(self) -> None:
        self.update_ages()

    def update_ages(self) -> None:
        """Add the time since they were told of; repaints only where the text is another one."""
        width = self.content_size.width or self.app.size.width - 2
        rows = _ROWS_ON_TALL_SCREENS if self.app.size.height >= _TALL_ROWS else 1
        since_told_s = self._clock() - self._reading_time
        orphans = [
            orphan if orphan.age_s is None else orphan.replace(age_s=orphan.age_s + since_told_s)
            for orphan in self.orphans
        ]
        lines = bar_lines(orphans, width, rows=rows, hint=self._hint)
        if lines != self._lines:
            self._lines = lines
            self.update(Content("\n".join(lines)))


def bar_lines(orphans: Sequence[Orphan], width: int, *, rows: int, hint: str) -> list[str]:
    """A line per attempt, at most `rows` of them; `hint` (which key ends them) closes the last one.

    What there is no room for goes in this order: further processes, names, and what they hold.
    """
    groups = by_attempt(orphans)
    room = max(0, width - len(hint))
    if len(groups) > rows:
        owners = clean_line(join_words([owner_text(group[0]) for group in groups]))
        resources = _resources_text(orphans)
        short = f"⚠ {orphan_count(orphans)}"
        holding = f"{short}: {resources}" if resources else short
        texts = [f"{short} of {owners}: {resources}" if resources else f"{short} of {owners}", holding, short]
        return [first_that_fits(texts, room) + hint]
    lines = [_group_line(group, room) for group in groups]
    return [*lines[:-1], lines[-1] + hint] if lines else []


def _group_line(group: Sequence[Orphan], width: int) -> str:
    # The largest holder first; Python's own helper, which holds nothing, last.
    group = sorted(
        group, key=lambda each: (-(each.gpu_bytes or 0), not each.ports, "resource_tracker" in each.command)
    )
    label = f"⚠ {orphan_count(group)} of {owner_text(group[0])}"
    resources = _resources_text(group)
    all_named = ", ".join(map(brief_orphan, group))
    first_named = brief_orphan(group[0]) + (", …" if len(group) > 1 else "")
    texts = [
        f"{label}: {all_named}",
        f"{label}: {first_named}",
        f"{label}: {resources}" if resources else label,
    ]
    return first_that_fits([*map(clean_line, texts), clean_line(label)], width)


def _resources_text(orphans: Sequence[Orphan]) -> str:
    """The sum of memory, and ports: `58.0 GiB, :8000`; empty where none is known."""
    memory = sum(orphan.gpu_bytes or 0 for orphan in orphans)
    ports = ports_text([port for orphan in orphans for port in orphan.ports])
    return ", ".join(text for text in (f"{gib(memory)} GiB" if memory else "", ports) if text)


_RANKS = {use.id: rank for rank, use in enumerate(uses())}

_LEAST_ABOUT, _LEAST_CUT = 12, 24
"""Cells at the right of the keys: with fewer nothing stands there, or nothing that is cut."""


@dataclass(frozen=True, slots=True)
class FooterEntry:
    id: str
    name: str
    """The name of the action that Textual calls."""
    key: str
    label: str
    footer: Footer = Footer.YES

    @property
    def width(self) -> int:
        """Cells."""
        return len(self.key) + len(self.label) + 3


@cache
def _declared_footer(owner: type, id_: str, name: str) -> Footer:
    """Look the binding up in the class that declares it, as Textual's copies of bindings have no `footer`."""
    for base in owner.__mro__:
        for binding in key_bindings(base.__dict__.get("BINDINGS", ())):
            if (binding.id, binding.action) == (id_, name):
                return binding.footer
    return Footer.NO


def footer_entries(active: dict[str, ActiveBinding]) -> list[FooterEntry]:
    """The order is the table's; an action with several keys has its first one."""
    entries: dict[str, FooterEntry] = {}
    for node, binding, enabled, _ in active.values():
        if binding.show and enabled and binding.id in _RANKS and binding.key != NO_KEY:
            key = binding.key_display or key_text(binding.key)
            footer = _declared_footer(type(node), binding.id, binding.action)
            entry = FooterEntry(binding.id, binding.action, key, binding.description, footer)
            entries.setdefault(binding.action, entry)
    return sorted(entries.values(), key=lambda entry: _RANKS[entry.id])


def _fitting_entries(entries: Sequence[FooterEntry], width: int) -> list[FooterEntry]:
    names: set[str] = set()
    for entry in sorted(entries, key=lambda entry: -entry.footer.value):
        if entry.width <= width or not names:
            names.add(entry.id)
            width -= entry.width
    return [entry for entry in entries if entry.id in names]


def footer_line(
    entries: Sequence[FooterEntry], width: int, *, description: str = "", enter: str = ""
) -> Content:
    """Entries that fit `width` cells; at the right, where there is room, `description` and `enter`.

    `description`: of the focused widget. `enter`: the effect of the key there.
    """
    entries_in_line = _fitting_entries(entries, width)
    line = Content("")
    for entry in entries_in_line:
        line += Content.assemble((f" {entry.key}", "bold $accent"), (f" {entry.label} ", ""))
    room = width - line.cell_length - 2
    texts = [" · ".join(filter(None, (description, enter))), description, enter]
    cut = truncate(description or enter, room) if room >= _LEAST_CUT else ""
    hint = next((text for text in texts if text and len(text) <= room), cut)
    if room < _LEAST_ABOUT or not hint:
        return line
    return Content.assemble(line, " " * (room + 1 - len(hint)), (hint, FAINT))


@runtime_checkable
class Attended(Protocol):
    """A widget that says what keys are about while it, or something in it, has the focus."""

    @property
    def about(self) -> str: ...


class KeyBar(Widget):
    """A footer drawn as one line: no child widgets, nothing to compose on each change of focus.

    Which keys work is asked when that has changed, what they are about whenever it is painted.
    """

    _active: dict[str, ActiveBinding] | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self._active = None
            self.refresh()

    def _now(self) -> dict[str, ActiveBinding]:
        if self._active is None:
            self._active = self.screen.active_bindings
        return self._active

    def render(self) -> Content:
        active = self._now()
        open_key = next(
            (key for key in active.values() if key.binding.id == "open" and key.enabled),
            None,
        )
        enter = "" if open_key is None else f"{key_of('open')}: {open_key.tooltip}"
        focused = self.screen.focused
        nodes = () if focused is None else focused.ancestors_with_self
        description = next((clean_line(node.about) for node in nodes if isinstance(node, Attended)), "")
        return footer_line(footer_entries(active), self.size.width, description=description, enter=enter)

    async def on_click(self, event: Click) -> None:
        x = event.x
        for entry in _fitting_entries(footer_entries(self._now()), self.size.width):
            if 0 <= x < entry.width:
                node = next(key.node for key in self._now().values() if key.binding.action == entry.name)
                await self.app.run_action(entry.name, node)
                return
            x -= entry.width
