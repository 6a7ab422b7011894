"""Events: entries of the journal."""

from __future__ import annotations

from rltui.views.component import LINK_SIGN

EVENT_SIGNS = {
    "crash": "✗",
    "alert": "⚠",
    "stall": "⚠",
    "edit": "≡",
    "note": "»",
    "resume": "↻",
    "restart": "↻",
    "checkpoint": "◆",
    "eval": "✦",
    "link": LINK_SIGN,
}
"""By the word for what happened, in the journal and on charts."""
