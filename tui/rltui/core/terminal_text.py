"""Text from anywhere, made fit for a terminal or for a JSON document.

Names, titles, values, comments and error texts come from outside. What would act on a terminal or disguise
other text (control characters, bidirectional overrides, invisible characters) gets a stand-in that can be
seen. Logs are another matter: `core/lines.py` drops their escape sequences and keeps their colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable

INVISIBLE = (
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 without the tab, DEL, C1
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
"""Categories Cc, Cf, Zl, Zp and Cs, for a character class; the tab is for each user to decide on."""

_SEEN_INSTEAD = re.compile(f"(?!\n)[{INVISIBLE}]")
_NOT_UTF8 = range(0xDC80, 0xDD00)
"""How Python keeps bytes of file names and arguments that are no UTF-8 (PEP 383)."""

_ASCII = {
    **dict.fromkeys("─━═┄┈╌", "-"),
    **dict.fromkeys("│┃║┊┆╎", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼┏┓┗┛╔╗╚╝╭╮╰╯", "+"),
    **dict.fromkeys("█▇▓", "#"),
    **dict.fromkeys("▏▎▍▌▋▊▉▒░▁▂▃▄▅▆", ":"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("‹«", "<"),
    **dict.fromkeys("›»", ">"),
    **dict.fromkeys("–—−", "-"),
    "…": "...",
    "→": "->",
    "←": "<-",
    "·": "-",
    "×": "x",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "°": " deg",
    "●": "*",
    "◐": "~",
    "◌": ".",
    "◑": "~",
    "○": "o",
    "✓": "+",
    "✗": "x",
    "⚠": "!",
    "↻": "@",
    "≡": "=",
    "␡": "^?",
}
"""What our own signs look like where the terminal's encoding has none of them."""


def visible(text: str) -> str:
    """`text` with a stand-in for each character that is not a visible one; line feeds and tabs stay.

    `␛` for an escape, `‹U+202E›` for a bidirectional override, `‹0xFF›` for a byte that is no UTF-8.
    """
    return text if text.isprintable() else _SEEN_INSTEAD.sub(_stand_in, text)


def json_escaped(document: str) -> str:
    r"""The same JSON document, with each such character, which can only be in a string, as `\uXXXX`."""
    return document if document.isprintable() else _SEEN_INSTEAD.sub(lambda match: _utf16(match[0]), document)


def encodable(text: str, encoding: str) -> str:
    """`text` in characters that `encoding` has: `->` for `→`, `a` for `ä`, `?` where nothing resembles it."""
    return _encodable(text, encoding, _resembling)


def json_encodable(document: str, encoding: str) -> str:
    """The same JSON document in characters that `encoding` has."""
    return _encodable(document, encoding, _utf16)


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"‹0x{code - 0xDC00:02X}›" if code in _NOT_UTF8 else f"‹U+{code:04X}›"


def _utf16(sign: str) -> str:
    data = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _encodable(text: str, encoding: str, stand_in: Callable[[str], str]) -> str:
    if _has(encoding, text):
        return text
    return "".join(sign if _has(encoding, sign) else stand_in(sign) for sign in text)


def _has(encoding: str, text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _resembling(sign: str) -> str:
    import unicodedata  # rarely needed

    if known := _ASCII.get(sign):
        return known
    if "\u2400" <= sign < "\u2420":
        return f"^{chr(ord(sign) - 0x2400 + 0x40)}"
    return "".join(each for each in unicodedata.normalize("NFKD", sign) if each.isascii()) or "?"
