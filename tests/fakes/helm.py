"""A stand-in for helm: it keeps what it was asked, and makes of prime-rl's values what the chart would.

Files of values are read as JSON, which is YAML too.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
ROLES = ("orchestrator", "inference", "trainer")
DEFAULTS: Mapping[str, Any] = {
    "namespace": "default",
    "storage": {"enabled": True, "size": "1Ti"},
    **{role: {"autoStart": False, "command": "", "replicas": 1} for role in ROLES},
}


def make_helm(folder: Path, examples: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """A folder with `bin/helm` and the chart `prime-rl`; returns the variables that lead to it."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin/helm"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from tests.fakes.helm import main\nmain(sys.argv[1:])\n"
    )
    program.chmod(0o755)
    chart = folder / "prime-rl"
    (chart / "examples").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: prime-rl\n")
    for name, values in examples.items():
        (chart / "examples" / f"{name}.yaml").write_text(json.dumps(values))
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "FAKE_HELM": str(folder)}


def asked(folder: Path) -> list[list[str]]:
    """Its arguments, call by call, but for those that only ask."""
    lines = (folder / "asked").read_text().splitlines()
    return [words for line in lines if (words := json.loads(line))[0] in ("install", "upgrade", "uninstall")]


def main(words: Sequence[str]) -> None:
    folder = Path(os.environ["FAKE_HELM"])
    with (folder / "asked").open("a") as file:
        file.write(json.dumps([*words]) + "\n")
    kept = folder / "releases.json"
    releases = json.loads(kept.read_text()) if kept.exists() else {}
    match words[0]:
        case "list":
            print(json.dumps([{"name": name, "status": "deployed"} for name in releases]))
        case "get":
            values = releases[words[2]]
            print(json.dumps(_merged(DEFAULTS, values) if "--all" in words else values))
        case "install" | "upgrade":
            values = _values(words[3:])
            if "--dry-run" in words:
                print(json.dumps({"name": words[1], "config": values}))
                return
            kept.write_text(json.dumps({**releases, words[1]: values}))
            _apply(words[1], _merged(DEFAULTS, values))
            print(f"NAME: {words[1]}\nSTATUS: deployed")
        case "uninstall":
            del releases[words[1]]
            kept.write_text(json.dumps(releases))
            _ask("remove", release=words[1])
            print(f'release "{words[1]}" uninstalled')


def _values(words: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option, value in itertools.pairwise(words):
        if option == "-f":
            values = _merged(values, json.loads(Path(value).read_text()))
        elif option == "--set":
            key, _, text = value.partition("=")
            leaf: Any = {"true": True, "false": False}.get(text, text)
            for name in reversed(key.split(".")):
                leaf = {name: leaf}
            values = _merged(values, leaf)
    return values


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _apply(release: str, values: Mapping[str, Any]) -> None:
    sets = {}
    for role in ROLES:
        said = values[role]
        labels = {"app": "prime-rl", "role": role, "app.kubernetes.io/instance": release}
        command = ["/bin/bash", "-c", said["command"]] if said["autoStart"] else ["sleep", "infinity"]
        sets[f"{release}-{role}"] = {
            "replicas": int(said["replicas"]),
            "container": f"prime-rl-{role}",
            "labels": labels,
            "command": command,
            "ports": said.get("ports", []),
            "limits": {} if role == "orchestrator" else {"nvidia.com/gpu": "1"},
        }
    claims = {f"{release}-shared-data": {"app.kubernetes.io/instance": release}}
    _ask("apply", statefulsets=sets, claims=claims)


def _ask(what: str, **values: object) -> None:
    config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    url = config["clusters"][0]["cluster"]["server"]
    request = urllib.request.Request(f"{url}/fake/{what}", json.dumps(values).encode(), method="POST")
    urllib.request.urlopen(request, timeout=10).close()
