"""Secrets: which keys hold them, and how to mask them. Pure.

They are in the config files and the copies of these, and nowhere else: not in diffs, plans, events,
the journal or alerts. Output of programs may hold them in any form: `redact`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from rltui.errors import ConfigError

MASK = "(hidden)"
OTHER_MASK = "(hidden, different)"
"""Used beside `MASK`, if the two values differ."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(name: str) -> frozenset[str]:
    return frozenset(segment.lower() for segment in _WORD.findall(name))


_SECRET_WORDS = _words(
    "secret secrets password passwords passwd passphrase credential credentials apikey apikeys authorization "
    "bearer webhook"
)
_REFERRING_WORDS = _words("var vars env name names file files path dir id ids type mode field column length")
"""Last words of keys whose value is not the secret itself: `api_key_var` names a variable."""
_PLAIN_KEYS = _words(
    "answer cache chat column completion config data dataset env example field filter foreign group hash id "
    "image images info input join kv label labels lookup map message messages metric metrics model name "
    "output param partition primary problem prompt public query question response reward routing score "
    "shuffle solution sort split state system target task text value video weight"
)
"""Words before `key` that make it the name of a field: `prompt_key`."""
_PLAIN_TOKENS = _words(
    "assistant audio bad begin bos boundary cls end eos extra fim first image img last mask max min new "
    "newline next num pad per placeholder reserved sep special start stop system think tool unk user "
    "video"
)
"""Words before `token` that make it one of a model's: `eos_token`."""
_HOLDERS = _words("access admin api auth hf hub private refresh ssh wandb")
"""Words before a secret plural: `api_keys`, `hf_tokens`; other keys and tokens are no secrets."""
_SEGMENT = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[^."\']+')
_QUOTED = r"""(?:"[^"\n]*"|'[^'\n]*')"""
_ASSIGNMENT = re.compile(
    # Quoted parts of a key stand beside dots, and are not many: else what begins at each of many quotes would
    # be read to the end of the line.
    rf"""(?<![\w.-])(?P<key>(?:[\w.-]+|{_QUOTED})(?:(?<=\.){_QUOTED}|(?<=["'])\.[\w.-]*){{0,16}}+)"""
    r"""(?P<equals>[ \t]*+=[ \t]*+)"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|[^\s#,}\]]*[^\s#,}\];])"""
)
_REFERENCE = re.compile(r"""(["']?)\$(?:(?P<name>\w+)|\{(?P<braced>\w+)(?::?-)?\})\1""")
"""A variable of a shell, in place of a value."""
_NUMBER_OR_BOOL = re.compile(r"true|false|[+-]?(?:[\d_.]+(?:e[+-]?\d+)?|inf|nan)", re.IGNORECASE)


@functools.lru_cache(maxsize=4096)
def is_secret(key: str) -> bool:
    """Whether text at a dotted key is a secret, by the key's words: `wandb.api_key`, `env.HF_TOKEN`."""
    segments = [segment.strip("\"'") for segment in _SEGMENT.findall(key)]
    names = [segment for segment in segments if not segment.isdecimal()]
    if not names:
        return False
    return _is_secret_name(names[-1]) or any(_SECRET_WORDS & _words(segment) for segment in names[:-1])


def mask_value(key: str, value: Any) -> Any:  # noqa: ANN401  (whatever TOML can hold)
    """`value` with secrets masked; numbers, truth values and missing values are no secrets."""
    match value:
        case str() if is_secret(key):
            return MASK
        case list():
            return [mask_value(key, item) for item in value]
        case dict():
            return {name: mask_value(f"{key}.{name}", item) for name, item in value.items()}
    return value


def mask_text(text: str) -> str:
    """A TOML text, an attempt at one, or a shell script, with secrets masked and its lines preserved.

    In a comment, and in a text that is no TOML, anything like `key = value` counts. The time is linear in the
    length of the text.
    """
    return "\n".join(_ASSIGNMENT.sub(_mask_assignment, line) for line in _without_strings(text).split("\n"))


def _is_secret_name(name: str) -> bool:
    words = [segment.lower() for segment in _WORD.findall(name)]
    if not words or words[-1] in _REFERRING_WORDS:
        return False
    earlier_words = frozenset(words[:-1])
    match words[-1]:
        case "key":
            return not earlier_words & _PLAIN_KEYS
        case "token":
            return not earlier_words & _PLAIN_TOKENS
        case "keys" | "tokens" if earlier_words & _HOLDERS:
            return True
    return bool(_SECRET_WORDS.intersection(words))


def _without_strings(text: str) -> str:
    """Secret strings of a valid TOML text masked, in any position; other texts unchanged."""
    from rltui.base.toml.scan import scan  # `logs` masks lines alone, and its start counts

    try:
        sections = scan(text)
    except (IndexError, ValueError, ConfigError, RecursionError):  # no TOML
        return text
    spans = {
        (entry.value_start, entry.value_end)
        for section in sections
        for entry in section.entries
        if text[entry.value_start : entry.value_start + 1] in ("'", '"')
        and is_secret(".".join(entry.path))
        and not _is_reference(text[entry.value_start : entry.value_end])
    }
    pieces, offset = [], 0
    for start, end in sorted(spans):
        pieces += [text[offset:start], f'"{MASK}"', "\n" * text.count("\n", start, end)]
        offset = end
    return "".join((*pieces, text[offset:]))


def _mask_assignment(match: re.Match[str]) -> str:
    value = match["value"]
    if not is_secret(match["key"]) or _NUMBER_OR_BOOL.fullmatch(value) or value[0] in "[{":
        return match[0]
    return match[0] if _is_reference(value) else f'{match["key"]}{match["equals"]}"{MASK}"'


def _is_reference(value: str) -> bool:
    """The value names the variable that holds the secret."""
    match = _REFERENCE.fullmatch(value)
    return match is not None and is_secret(match["name"] or match["braced"])


_AFTER_ESCAPE = r"(?<=\\[nrt])"
"""The text begins a line there, in the JSON or the `repr` that it stands in."""
_TOKEN = re.compile(
    rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})(?:"
    r"(?:hf|gh[pousr]|github_pat|glpat|pit|wandb_v1|nvapi|xox[abeprs]|sk)[_-][\w-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
"""Tokens of Hugging Face, GitHub, GitLab, Prime Intellect, W&B, NVIDIA, Slack, OpenAI, AWS and Google, and
JSON web tokens.
"""
_IN_ADDRESS = re.compile(
    r"""(://(?:[^\s/:@"']{0,64}:(?=[^\s/@"']{1,512}@)|(?=[^\s/:@"']{20,512}@)))[^\s/@"']+"""
)
_SCHEME = r"(?:Bearer|Basic|Token)[ \t]+"
_AUTHORIZATION = re.compile(
    rf"(?:\b|{_AFTER_ESCAPE})({_SCHEME})(?=[a-z_.~+/=-]*\d)[\w.~+/=-]{{8,}}", re.IGNORECASE
)
_LABELLED = re.compile(
    rf"(?:(?<![\w.\\-])|{_AFTER_ESCAPE})"
    r"(?P<head>(?P<option>--)?(?P<key>[\w.-]{3,128}+)"
    r"""(?:\\?["']?[ \t]*[=:][ \t]*|(?(option)[ \t]+|(?!)))"""
    rf"""(?:{_SCHEME})?)(?:(?P<quote>\\?["'](?:{_SCHEME})?)"""
    r"""(?P<quoted>[^"'\\\n]+)|(?P<plain>[^\s"'\\,;&(){}\[\]<>]+))""",
    re.IGNORECASE,
)
_NO_SECRETS = frozenset({"null", "None", MASK, "Bearer", "Basic", "Token"})
_LIKE_A_TOKEN = re.compile(r"(?=\D*\d).{8,}")


_SIGNS = (
    "key", "token", "secret", "passw", "passphrase", "credential", "authorization", "webhook", "basic",
    "bearer", "://", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat", "pit_", "wandb_v1",
    "nvapi", "xox", "sk-", "sk_", "akia", "asia", "aiza", "eyj",
)  # fmt: skip
"""One of them is in each text with a secret: most lines of a log have none."""


def redact(text: str, values: Iterable[str] = ()) -> str:
    """A program's output with secrets masked: anything like a token, passwords in addresses, values called a
    key or a password, and these `values`. It has as many lines as before.
    """
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    plain = text.lower().replace(" tokens", "")  # of a throughput
    if not any(sign in plain for sign in _SIGNS):
        return text
    text = _TOKEN.sub(MASK, _IN_ADDRESS.sub(rf"\1{MASK}", _AUTHORIZATION.sub(rf"\1{MASK}", text)))
    return _LABELLED.sub(_mask_match, text)


def _mask_match(match: re.Match[str]) -> str:
    key, value = match["key"].strip("-."), match["quoted"] or match["plain"]
    if value in _NO_SECRETS or _NUMBER_OR_BOOL.fullmatch(value) or _is_reference(value):
        return match[0]
    is_prose = key.lower() in ("key", "token") and not _LIKE_A_TOKEN.fullmatch(value)
    if is_prose or key.lower().endswith(("error", "exception")) or not is_secret(key):
        return match[0]
    return f"{match['head']}{match['quote'] or ''}{MASK}"
