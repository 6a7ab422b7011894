from __future__ import annotations

from pathlib import Path

import pytest

from rltui import paths, settings
from rltui.cli.app import TuiSettings
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.errors import ConfigError
from rltui.settings import AlertSettings, Settings

FULL = """\
[alerts]
bell = false
osc9 = true
command = ["notify.sh", "--all"]
tmux = ["default", "/tmp/my.sock"]
tmux_clients = ["/dev/pts/*", "work"]
min_severity = "error"
repeat_s = 5
[health]
silent = ["throughput", "kl"]
reward_drop_frac = 0.3
"""


def test_a_missing_file_means_defaults(tmp_path: Path) -> None:
    assert settings.load(tmp_path / "settings.toml") == Settings()
    assert (Settings().alerts.bell, Settings().alerts.tmux) == (True, ())


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(FULL)
    user_settings = settings.load(path)
    assert user_settings.health == Thresholds(silent=("throughput", "kl"), reward_drop_frac=0.3)
    assert user_settings.alerts == AlertSettings(
        bell=False,
        osc9=True,
        command=("notify.sh", "--all"),
        tmux=("default", "/tmp/my.sock"),
        tmux_clients=("/dev/pts/*", "work"),
        min_severity="error",
        repeat_s=5.0,
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[alert]\n", ":1:1: alert: unknown key; did you mean alerts?"),
        ("[alerts]\nbel = true\n", ":2:1: alerts.bel: unknown key; did you mean bell?"),
        ("[alerts]\ncommand = 'a b'\n", ':2:1: alerts.command: must be a list: ["a b"]'),
        ("[alerts]\nbell = 'yes'\n", ":2:1: alerts.bell: input should be a valid boolean (given: 'yes')"),
        ("[health]\nkl_max = nan\n", ":2:1: health.kl_max: input should be a finite number"),
        ("[health]\nsilent = ['entropy']\n", ":2:11: health.silent.0: input should be 'non-finite'"),
        ("[health]\nsilent = 'kl'\n", ':2:1: health.silent: must be a list: ["kl"]'),
        ("[hosts.a]\nreach = 'nc'\n", ':2:1: hosts.a.reach: must be a list: ["ssh", "nc"]'),
        ("[agents]\nrights = 'all'\n", ":2:1: agents.rights: input should be 'look', 'propose' or 'act'"),
        ("[agents]\nverbs = ['restar']\n", ":2:1: agents.verbs: restar is none of start, stop"),
        ("[agents]\nbounds = {lr = [1, 0]}\n", ":2:1: agents.bounds: bounds of lr: write [lowest, highest]"),
        ("[agents.bounds]\noptim.lr = 1\n", ":1:1: agents.bounds.optim.lr: input should be a valid tuple"),
        ("[alerts\n", ":1:"),
    ],
)
def test_a_fault_names_file_key_and_what_to_do(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        settings.load(path)
    assert str(caught.value).startswith(f"{path}{fault}")
    assert caught.value.exit_code == 3


def test_the_file_lies_in_the_users_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert paths.settings_file() == tmp_path / "rltui/settings.toml"


def test_the_tui_has_the_defaults_of_the_settings() -> None:
    """It does not load the settings where there are none."""
    usual = settings.Settings()
    known = (usual.tour, usual.alerts.bell, usual.alerts.osc9, usual.theme, usual.hosts)
    assert known == TuiSettings()
