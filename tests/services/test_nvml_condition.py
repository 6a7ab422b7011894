from __future__ import annotations

import pytest

from rltui.services.gpu.nvml_handle import throttle_words


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1 | 0x4, ()),
        (0x8, ("hardware slowdown",)),
        (0x8 | 0x80, ("power brake",)),
        (0x20 | 0x4, ("thermal slowdown",)),
        (0x1000000, ()),
    ],
    ids=["none", "normal", "no cause given", "cause given", "beside a normal one", "unknown"],
)
def test_only_what_slows_a_card_down_is_named(bits: int, words: tuple[str, ...]) -> None:
    assert throttle_words(bits) == words
