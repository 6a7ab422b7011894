"""Values that are nobody's business: what a key must be called, and how such a value is told. Pure.

They are in the config files and the copies of these, and nowhere else: not in diffs, plans, events,
the journal or alerts. What programs print may hold them in any form: `hidden_in`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from rltui.errors import ConfigError

MASK = "(hidden)"
OTHER_MASK = "(hidden, another)"
"""Beside `MASK`, where the two differ."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


_ALWAYS = _words(
    "secret secrets password passwords passwd passphrase credential credentials apikey apikeys authorization "
    "bearer webhook"
)
_ABOUT = _words("var vars env name names file files path dir id ids type mode field column length")
"""Last words that tell of something else than the secret: `api_key_var` names a variable."""
_PLAIN_KEYS = _words(
    "answer cache chat column completion config data dataset env example field filter foreign group hash id "
    "image images info input join kv label labels lookup map message messages metric metrics model name "
    "output param partition primary problem prompt public query question response reward routing score "
    "shuffle solution sort split state system target task text value video weight"
)
"""What makes a key the name of a field: `prompt_key`."""
_PLAIN_TOKENS = _words(
    "assistant audio bad begin bos boundary cls end eos extra fim first image img last mask max min new "
    "newline next num pad per placeholder reserved sep special start stop system think tool unk user "
    "video"
)
"""What makes a token one of a model's: `eos_token`."""
_HOLDERS = _words("access admin api auth hf hub private refresh ssh wandb")
"""Of several: `api_keys`, `hf_tokens`; other keys and tokens are no secrets."""
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[^."\']+')
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
    parts = [part.strip("\"'") for part in _PART.findall(key)]
    named = [part for part in parts if not part.isdecimal()]
    if not named:
        return False
    return _is_secret_name(named[-1]) or any(_ALWAYS & _words(part) for part in named[:-1])


def masked(key: str, value: Any) -> Any:  # noqa: ANN401  (whatever TOML can hold)
    """`value` as it may be told; numbers, truth values and what is not set are no secrets."""
    match value:
        case str() if is_secret(key):
            return MASK
        case list():
            return [masked(key, item) for item in value]
        case dict():
            return {name: masked(f"{key}.{name}", item) for name, item in value.items()}
    return value


def masked_text(text: str) -> str:
    """A TOML text, what was to become one, or a shell script, as it may be told: with its lines as they are.

    In a comment, and in a text that is no TOML, what looks like `key = value` counts. The time it takes grows
    with the length of the text, whatever it says.
    """
    return "\n".join(_ASSIGNMENT.sub(_masked_assignment, line) for line in _without_strings(text).split("\n"))


def _is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    before = frozenset(words[:-1])
    match words[-1]:
        case "key":
            return not before & _PLAIN_KEYS
        case "token":
            return not before & _PLAIN_TOKENS
        case "keys" | "tokens" if before & _HOLDERS:
            return True
    return bool(_ALWAYS.intersection(words))


def _without_strings(text: str) -> str:
    """Secret strings of a valid TOML text masked, wherever they stand; other texts as they are."""
    from rltui.core.toml.scan import scan  # `logs` masks lines alone, and its start counts

    try:
        sections = scan(text)
    except (IndexError, ValueError, ConfigError, RecursionError):  # no TOML
        return text
    found = {
        (entry.value_start, entry.value_end)
        for section in sections
        for entry in section.entries
        if text[entry.value_start : entry.value_start + 1] in ("'", '"')
        and is_secret(".".join(entry.path))
        and not _is_reference(text[entry.value_start : entry.value_end])
    }
    told, at = [], 0
    for start, end in sorted(found):
        told += [text[at:start], f'"{MASK}"', "\n" * text.count("\n", start, end)]
        at = end
    return "".join((*told, text[at:]))


def _masked_assignment(found: re.Match[str]) -> str:
    value = found["value"]
    if not is_secret(found["key"]) or _NUMBER_OR_BOOL.fullmatch(value) or value[0] in "[{":
        return found[0]
    return found[0] if _is_reference(value) else f'{found["key"]}{found["equals"]}"{MASK}"'


def _is_reference(value: str) -> bool:
    """It names the variable that holds the secret."""
    found = _REFERENCE.fullmatch(value)
    return found is not None and is_secret(found["name"] or found["braced"])


_AFTER_ESCAPE = r"(?<=\\[nrt])"
"""The text begins a line there, in the JSON or the `repr` that it stands in."""
_TOKEN = re.compile(
    rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})(?:"
    r"(?:hf|gh[pousr]|github_pat|glpat|pit|wandb_v1|nvapi|xox[abeprs]|sk)[_-][\w-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
"""As Hugging Face, GitHub, GitLab, Prime Intellect, W&B, NVIDIA, Slack, OpenAI, AWS and Google make them, and
JSON web tokens."""
_IN_ADDRESS = re.compile(
    r"""(://(?:[^\s/:@"']{0,64}:(?=[^\s/@"']{1,512}@)|(?=[^\s/:@"']{20,512}@)))[^\s/@"']+"""
)
_SCHEME = r"(?:Bearer|Basic|Token)[ \t]+"
_CARRIED = re.compile(rf"(?:\b|{_AFTER_ESCAPE})({_SCHEME})(?=[a-z_.~+/=-]*\d)[\w.~+/=-]{{8,}}", re.IGNORECASE)
_SAID = re.compile(
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
"""One of them is in each text that has something to hide: most lines of a log have none."""


def hidden_in(text: str, values: Iterable[str] = ()) -> str:
    """What a program printed, as it may be told elsewhere: without what looks like a token, without passwords
    in addresses, what is called a key or a password, and these `values`. It has as many lines as before.
    """
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    plain = text.lower().replace(" tokens", "")  # of a throughput
    if not any(sign in plain for sign in _SIGNS):
        return text
    text = _TOKEN.sub(MASK, _IN_ADDRESS.sub(rf"\1{MASK}", _CARRIED.sub(rf"\1{MASK}", text)))
    return _SAID.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    key, value = found["key"].strip("-."), found["quoted"] or found["plain"]
    if value in _NO_SECRETS or _NUMBER_OR_BOOL.fullmatch(value) or _is_reference(value):
        return found[0]
    is_prose = key.lower() in ("key", "token") and not _LIKE_A_TOKEN.fullmatch(value)
    if is_prose or key.lower().endswith(("error", "exception")) or not is_secret(key):
        return found[0]
    return f"{found['head']}{found['quote'] or ''}{MASK}"
