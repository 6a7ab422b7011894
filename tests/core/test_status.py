"""What a status says of the whole experiment."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import component, running_status

from rltui.core.states import ComponentState


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (("ready", "ready"), "running"),
        (("ready", "waiting"), "waiting"),
        (("starting", "ready"), "starting"),
        (("failed", "waiting"), "failed"),
    ],
)
def test_the_word_is_what_most_needs_an_eye(states: tuple[str, str], word: str) -> None:
    parts = tuple(component(f"c{at}", ComponentState(state)) for at, state in enumerate(states))
    status = running_status(components=parts)
    assert status.model_copy(update={"progress": type(status.progress)()}).word == word
