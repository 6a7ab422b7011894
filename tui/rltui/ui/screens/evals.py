"""The evaluation screen: base, SFT, checkpoints and runs beside each other. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from rltui.core.evals import EvalReport, Evaluation, QueuedEval, baseline, difference
from rltui.core.text import duration, shortened, table_columns
from rltui.errors import RltuiError
from rltui.ui.actions import Place, bindings
from rltui.ui.requests import ExperimentScreen, show_error
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.shared import Shared
from rltui.ui.text import clean_line, progress_bar
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.gpu_words import FAINT, hanging
from rltui.ui.widgets.row_list import Row, RowList
from rltui.wording import EVAL_HEAD, difference_text, eval_cells

_INTERVAL_S = 2.0
"""Between two questions, while the screen is seen."""
_FIRST_TO_GO = (8, 4, 1, 7, 6, 5)
"""Columns of `eval_cells` where there is no room for all: the row under the cursor tells of them."""
_GAP = "  "
_LABEL = 12
_BAR = 10
Order = Literal["kind", "newest", "best"]
_ORDERS: dict[Order, str] = {"kind": "from base to the last step", "newest": "newest first", "best": "best first"}
_KINDS = ("base", "sft", "checkpoint", "now", "model")


def in_order(evaluations: Sequence[Evaluation], order: Order) -> list[Evaluation]:
    """By environment, and within one by what was evaluated, by time, or by the mean."""
    def key(each: Evaluation) -> tuple[object, ...]:
        match order:
            case "newest":
                return (-each.at,)
            case "best":
                return (each.env, not each.is_sound, -(each.mean or 0.0), each.at)
            case "kind":
                is_of_run = each.kind in ("checkpoint", "now")
                return (each.env, _KINDS.index("checkpoint" if is_of_run else each.kind), runs.index(each.run) if is_of_run else 0, each.step or 0, each.at)
    runs = _runs(evaluations)
    return sorted(evaluations, key=key)
