from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.services.config.models.checkouts import MODEL, Box, make

from rltui.services.config.models import FrameworkModels


@pytest.fixture
def box(tmp_path: Path, own_user: Path) -> Box:
    """A checkout that nobody asked yet, of a user of its own."""
    return make(tmp_path / "box", MODEL)


@pytest.fixture
def ask(box: Box) -> Iterator[Callable[..., FrameworkModels]]:
    """Makes `FrameworkModels` of the checkout, with these limits, that are closed in the end."""
    with ExitStack() as ends:
        yield lambda **limits: ends.enter_context(closing(box.own(**limits)))
