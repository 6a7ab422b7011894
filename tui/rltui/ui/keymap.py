"""The keys of a person: the table's, a preset's over them, those of the settings over both."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from rltui.base.text import did_you_mean
from rltui.core import hints
from rltui.errors import ConfigError
from rltui.ui.actions import ACTIONS, PANES, SCREENS, KeyContext, key_of, uses
from rltui.ui.key_names import key_text, typed_key

_DEFAULTS = {action.id: action.default_keys for action in ACTIONS}
_ROLE_IDS = ("component.inference", "component.orchestrator", "component.trainer")
_Locate = Callable[[str], str]
"""Tells where a file of settings has the keys of an action."""
_LABELS = {action.id: action.label for action in ACTIONS}


@cache
def presets() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Keys as they are written, by the ids of the actions, by the name of the preset."""
    folder = Path(__file__).with_name("keymaps")
    return {
        path.stem: {id_: tuple(keys) for id_, keys in tomllib.loads(path.read_text("utf-8")).items()}
        for path in sorted(folder.glob("*.toml"))
    }


def idle_key(key: str, screen: KeyContext) -> str:
    """The hint for a key that does nothing now: the nearest screen or pane where it does something."""
    name, contexts = key_text(key), (screen, *PANES.get(screen, ()))
    with_it = [use for use in uses() if key in use.keys.split(",")]
    for use in with_it:
        if screen in use.places:
            if use.id in _ROLE_IDS:
                other = f"{key_of('pane.next')} goes to the next pane"
                return f"{name}: no {use.label} in this run; {other}"
            return f"{name}: {use.label} is not available now"
        if pane := next((context for context in use.places if context in contexts), None):
            return f"{name}: {use.label} works in the {pane.value}"
    other_case = [
        use for use in uses() if key.swapcase() in use.keys.split(",") and {*use.places} & {*contexts}
    ]
    if other_case and len(key) == 1:
        return f"{name} does nothing here. {key_text(key.swapcase())}: {other_case[0].label}"
    elsewhere = next(
        ((use, context) for use in with_it for context in use.places if context in SCREENS), None
    )
    if elsewhere is not None:
        use, context = elsewhere
        screen_id = f"screen.{context.name.lower()}"
        way = f" ({key_of(screen_id)})" if screen_id in _DEFAULTS else ""
        return f"{name} does nothing here. {use.label} works on the {context.value}{way}"
    return f"{name} does nothing here. {key_of('help')}: all keys"


def load(path: Path, preset: str = "", *, text: str | None = None) -> dict[str, str]:
    """The differences from the table, for `actions.remap`: Textual's names, comma-separated, by the ids.

    `preset` counts in place of the one that the settings name, `text` in place of the content of the file.

    Raises:
        ConfigError: if the settings cannot be read, name no action or no key, or give two actions one key on
            the same screen: names file, line, key and both.
    """
    if text is None and not preset and not path.exists():
        return {}
    from rltui import settings  # pydantic: 100 ms, which only who has settings need pay

    source = settings.source_at(path, text)
    config = settings.parse_settings(source)
    locate = partial(settings.location_of_key, source, "keys")
    name = preset or config.keymap
    if name and name not in presets():
        raise ConfigError(f"unknown keymap: {name}", hint=f"keymaps: {', '.join(presets())}")
    preset_keys = presets()[name] if name else {}
    if not preset_keys and not config.keys:
        return {}
    keys_by_id = {id_: _names(locate, id_, keys) for id_, keys in {**preset_keys, **config.keys}.items()}
    effective = {**_DEFAULTS, **keys_by_id}
    by_place: dict[KeyContext, dict[str, str]] = {}
    for id_ in (*(id_ for id_ in _DEFAULTS if id_ not in config.keys), *config.keys):
        for key in filter(None, effective[id_].split(",")):
            for context in _screens_of(id_):
                other = by_place.setdefault(context, {}).setdefault(key, id_)
                if other != id_:
                    raise _fault(
                        locate,
                        id_,
                        f"{key_text(key)} is taken by {_name(other)} on the {context.value}",
                        hint=f'give {other} another key, or none: "{other}" = []',
                    )
    return {id_: keys for id_, keys in keys_by_id.items() if keys != _DEFAULTS[id_]}


def _names(locate: _Locate, id_: str, keys: Sequence[str]) -> str:
    if id_ not in _DEFAULTS:
        guess = did_you_mean(id_, _DEFAULTS)
        raise _fault(
            locate,
            id_,
            f"unknown action{f'; {guess}' if guess else ''}",
            hint=f"{hints.KEYS} lists the actions",
        )
    try:
        return ",".join(dict.fromkeys(map(typed_key, keys)))
    except ValueError as error:
        raise _fault(locate, id_, str(error)) from None


def _name(id_: str) -> str:
    return f"{_LABELS[id_]} ({id_})"


@cache
def _screens_of(id_: str) -> tuple[KeyContext, ...]:
    """Contexts where keys of other actions are at hand too: main screens with their panes, else a place
    alone.
    """
    contexts = {context for use in uses() if use.id == id_ for context in use.places}
    screens = [screen for screen in SCREENS if contexts & {screen, *PANES.get(screen, ())}]
    panes = {pane for panes in PANES.values() for pane in panes}
    return (*screens, *(contexts - panes - {*screens}))


def _fault(locate: _Locate, id_: str, fault: str, *, hint: str = "") -> ConfigError:
    fallback = "until then the default keys are used"
    return ConfigError(
        f"{locate(id_)}: keys.{id_}: {fault}",
        hint=f"{hint}; {fallback}" if hint else fallback,
    )
