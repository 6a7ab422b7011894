"""How a person has the list of runs: `runs-view.json` in the user's state folder."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import orjson

from rltui import paths
from rltui.core.run_columns import RunView, columns_of
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder, read_own, write_atomically

logger = logging.getLogger(__name__)


def view_file() -> Path:
    """Where it is kept."""
    return paths.state_dir() / "runs-view.json"


def read_view() -> RunView:
    """As it was kept last; the usual one where there is none, or none that can be used."""
    try:
        data = orjson.loads(read_own(view_file()))
        columns = tuple(column.id for column in columns_of(map(str, data["columns"])))
        sort = "".join(column.id for column in columns_of([str(data["sort"])] if data["sort"] else ()))
        usual = RunView()
        return RunView(
            columns or usual.columns, sort, data["is_reversed"] is True, data["is_grouped"] is True
        )
    except FileNotFoundError:
        return RunView()
    except (OSError, ValueError, TypeError, KeyError, RltuiError) as error:
        logger.warning("%s is left out: %s", view_file(), error)
        return RunView()


def keep_view(view: RunView) -> None:
    """Keep it for the next look.

    Raises:
        RltuiError: if it cannot be written.
    """
    make_folder(view_file().parent, mode=0o700)
    write_atomically(view_file(), orjson.dumps(asdict(view)))
