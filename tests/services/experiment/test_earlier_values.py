"""What rltui of commit b469122a wrote, whose values pydantic checked: files of real runs, and answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rltui.base.values import Value
from rltui.core.config.edit_log import EditRecord
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Alert, Plan, Request, Status
from rltui.core.experiment.journal import JournalEntry
from rltui.core.gpu.report import GpuReport
from rltui.core.runs.evals import Evaluation
from rltui.core.runs.queue import RunQueue
from rltui.services.experiment.intent import Intent
from rltui.services.runs.evaluations import EvalQueue

KINDS: dict[str, type[Value]] = {
    kind.__name__: kind
    for kind in (
        Alert,
        EvalQueue,
        Evaluation,
        GpuReport,
        Intent,
        JournalEntry,
        KnobTable,
        Plan,
        Request,
        RunQueue,
        Status,
    )
}
TAKEN_OUT = {"Request": ("by",)}
"""Keys that are read and no longer written: who requests something is told by the connection."""
DATA = Path(__file__).parents[2] / "data/values_of_b469122a.jsonl"
DOCUMENTS = [next(iter(json.loads(line).items())) for line in DATA.read_text().splitlines()]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_the_earlier_version_wrote_is_read_and_written_alike(kind: str) -> None:
    documents = [document for name, document in DOCUMENTS if name == kind]
    assert documents
    for document in documents:
        value = KINDS[kind].from_json(json.dumps(document))
        assert KINDS[kind].from_plain(document) == value
        assert KINDS[kind].from_json(value.to_json()) == value
        kept = {key: item for key, item in document.items() if key not in TAKEN_OUT.get(kind, ())}
        _assert_holds(json.loads(value.to_json()), kept)
        if isinstance(value, JournalEntry) and value.kind == "edit":
            assert EditRecord.from_plain(value.data).files


def _assert_holds(written: Any, earlier: Any) -> None:
    """All of the earlier document is in the one that is written now, with numbers of the same kind."""
    if isinstance(earlier, dict):
        assert earlier.keys() <= written.keys()
        for key, value in earlier.items():
            _assert_holds(written[key], value)
    elif isinstance(earlier, list):
        assert len(written) == len(earlier)
        for one, other in zip(written, earlier, strict=True):
            _assert_holds(one, other)
    else:
        assert (type(written), written) == (type(earlier), earlier)
