"""A stand-in for helm 4: its command line, on objects that it makes as prime-rl's chart would.

Files of values are read as JSON, which is YAML too.

Where `RLTUI_HELM_PYTHON` names a Python that has the package helm-sdkpy, which is helm's own Go library, and
`RLTUI_PRIME_RL` a checkout, that library renders the chart of the checkout, keeps the releases and makes,
changes and deletes their objects; only its command line is made here.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import http.server
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.kube_api import discovery, kubeconfig, put

REPOSITORY = Path(__file__).parents[2]
ROLES = ("orchestrator", "inference", "trainer")
DEFAULTS: Mapping[str, Any] = {
    "namespace": "default",
    "storage": {"enabled": True, "size": "1Ti"},
    **{role: {"autoStart": False, "command": "", "replicas": 1} for role in ROLES},
}
_PYTHON = "RLTUI_HELM_PYTHON"
_STATES = ("deployed", "failed", "pending", "uninstalling", "uninstalled", "superseded")
_COLLECTIONS = {
    "StatefulSet": "apis/apps/v1/namespaces/default/statefulsets",
    "PersistentVolumeClaim": "api/v1/namespaces/default/persistentvolumeclaims",
    "Secret": "api/v1/namespaces/default/secrets",
}


def make_helm(folder: Path, examples: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """A folder with `bin/helm` and the chart `prime-rl`; returns the variables that lead to it."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin/helm"
    python, chart = os.environ.get(_PYTHON), folder / "prime-rl"
    if python is None:
        chart.mkdir()
        (chart / "Chart.yaml").write_text("name: prime-rl\n")
    else:
        shutil.copytree(Path(os.environ["RLTUI_PRIME_RL"], "k8s/prime-rl"), chart)
    program.write_text(
        f"#!{python or sys.executable}\nimport sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from tests.fakes.helm import main\nmain(sys.argv[1:])\n"
    )
    program.chmod(0o755)
    (chart / "examples").mkdir(exist_ok=True)
    for name, values in examples.items():
        (chart / "examples" / f"{name}.yaml").write_text(json.dumps(values))
    variables = {_PYTHON: python} if python else {}
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "FAKE_HELM": str(folder), **variables}


def asked(folder: Path) -> list[list[str]]:
    """Arguments of its calls, without those that only read."""
    lines = (folder / "asked").read_text().splitlines()
    return [call for line in lines if (call := json.loads(line))[0] in ("install", "upgrade", "uninstall")]


def stateful_set(
    release: str, role: str, command: Sequence[str], *, replicas: int = 1, ports: Sequence[int] = ()
) -> dict[str, Any]:
    """The StatefulSet that the chart makes for a role."""
    role_labels = {"app": "prime-rl", "role": role}
    labels = {**role_labels, "app.kubernetes.io/instance": release}
    container = {
        "name": f"prime-rl-{role}",
        "image": "primeintellect/prime-rl:main",
        "command": [*command][:2],
        "args": [*command][2:],
        "ports": [{"containerPort": port} for port in ports],
        "resources": {"limits": {} if role == "orchestrator" else {"nvidia.com/gpu": 1}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"{release}-{role}", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": role_labels}, "template": template},
    }


def claim(release: str) -> dict[str, Any]:
    """The claim that the chart makes: helm deletes it with the release."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"{release}-shared-data",
            "labels": {"app.kubernetes.io/instance": release},
        },
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
    }


class Engine:
    """Does what helm does, for the objects above."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rendered(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """The release, of which nothing is made yet."""
        release, values = arguments.release, _values(arguments)
        every = _merged(DEFAULTS, values)
        objects = [claim(release)] if every["storage"]["enabled"] else []
        for role in ROLES:
            values_of_role = every[role]
            command = (
                ["/bin/bash", "-c", values_of_role["command"]]
                if values_of_role["autoStart"]
                else ["sleep", "infinity"]
            )
            port = values_of_role.get("service", {}).get("port", 8000)
            objects.append(
                stateful_set(release, role, command, replicas=values_of_role["replicas"], ports=[port])
            )
        manifest = "".join(f"---\n# Source: prime-rl\n{json.dumps(document)}\n" for document in objects)
        chart = {"values": DEFAULTS}
        return {"name": release, "config": values, "manifest": manifest, "chart": chart, "version": 1}

    def change(self, arguments: argparse.Namespace) -> None:
        record = self.rendered(arguments)
        before = {}
        if arguments.verb == "upgrade":
            previous_record = self.record(arguments.release)
            before, record["version"] = (
                _documents(previous_record["manifest"]),
                previous_record["version"] + 1,
            )
        after = _documents(record["manifest"])
        for document in after.values():
            put(self.url, document)
        for key in before.keys() - after.keys():
            if not _is_kept(self.ask(*key)):
                self.ask(*key, method="DELETE")
        packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode())))
        name = f"sh.helm.release.v1.{arguments.release}.v{record['version']}"
        labels = {"owner": "helm", "name": arguments.release, "version": str(record["version"])}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}
        put(self.url, {**secret, "data": {"release": packed.decode()}})

    def uninstall(self, name: str) -> None:
        for key, document in _documents(self.record(name)["manifest"]).items():
            if not _is_kept(document):
                self.ask(*key, method="DELETE")
        for secret in self._secrets(f"owner%3Dhelm%2Cname%3D{name}"):
            self.ask("Secret", secret["metadata"]["name"], method="DELETE")

    def listed(self) -> list[str]:
        return sorted({secret["metadata"]["labels"]["name"] for secret in self._secrets("owner%3Dhelm")})

    def record(self, release: str) -> dict[str, Any]:
        """Record of the newest revision."""
        secrets = self._secrets(f"owner%3Dhelm%2Cname%3D{release}")
        if not secrets:
            sys.exit("Error: release: not found")
        newest = max(secrets, key=lambda each: int(each["metadata"]["labels"]["version"]))
        packed = base64.b64decode(base64.b64decode(newest["data"]["release"]))
        record: dict[str, Any] = json.loads(gzip.decompress(packed))
        return record

    def ask(self, kind: str, name: str = "", *, method: str = "GET", query: str = "") -> Any:
        path = f"{self.url}/{_COLLECTIONS[kind]}{'/' if name else ''}{name}{query}"
        with urllib.request.urlopen(urllib.request.Request(path, method=method), timeout=10) as answer:
            return json.loads(answer.read())

    def _secrets(self, selector: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.ask("Secret", query=f"?labelSelector={selector}")["items"]
        return items


class Library(Engine):
    """Helm itself, as a Go library."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.helm = importlib.import_module("helm_sdkpy")
        self.cluster = self.helm.Configuration(kubeconfig=os.environ["KUBECONFIG"])

    def rendered(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Install it into a server that keeps nothing: the library has no `--dry-run`."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Forgetful)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(kubeconfig(server.server_port))
            file.flush()
            made = self._run(self.helm.Install(self.helm.Configuration(kubeconfig=file.name)), arguments)
        server.shutdown()
        return made

    def change(self, arguments: argparse.Namespace) -> None:
        action = self.helm.Install if arguments.verb == "install" else self.helm.Upgrade
        self._run(action(self.cluster), arguments)

    def uninstall(self, name: str) -> None:
        asyncio.run(self.helm.Uninstall(self.cluster).run(name, wait=False))

    def listed(self) -> list[str]:
        return [release["name"] for release in asyncio.run(self.helm.List(self.cluster).run(all=True)) or ()]

    def _run(self, action: Any, arguments: argparse.Namespace) -> dict[str, Any]:
        values = _values(arguments)
        result = asyncio.run(action.run(arguments.release, arguments.chart, values=values, wait=False))
        found: dict[str, Any] = result
        return found


class _Forgetful(http.server.BaseHTTPRequestHandler):
    """A Kubernetes API server in which everything can be made and nothing is."""

    def do_GET(self) -> None:
        document = discovery(self.path.partition("?")[0].strip("/").split("/"))
        self._send(
            *((200, document) if document else (404, {"kind": "Status", "code": 404, "reason": "NotFound"}))
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_protobuf = body.startswith(b"k8s")
        self._send(201, {"kind": "Secret", "apiVersion": "v1"} if is_protobuf else json.loads(body))

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Nothing of it is worth telling."""

    def _send(self, code: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(argv: Sequence[str]) -> None:
    folder = Path(os.environ["FAKE_HELM"])
    with (folder / "asked").open("a") as file:
        file.write(json.dumps([*argv]) + "\n")
    arguments = _options().parse_args(argv)
    config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    engine = (Library if _PYTHON in os.environ else Engine)(config["clusters"][0]["cluster"]["server"])
    match arguments.verb:
        case "list":
            names = [name for name in engine.listed() if re.search(arguments.filter, name)]
            print(json.dumps([{"name": name, "status": "deployed"} for name in names]))
        case "get":
            record = engine.record(arguments.release)
            values = record.get("config") or {}
            every = _merged(record["chart"]["values"], values) if arguments.all else values
            print(record["manifest"] if arguments.what == "manifest" else json.dumps(every))
        case "install" | "upgrade" if arguments.dry_run:
            print(json.dumps(engine.rendered(arguments)))
        case "install" | "upgrade":
            engine.change(arguments)
            print(f"NAME: {arguments.release}\nSTATUS: deployed")
        case "uninstall":
            engine.uninstall(arguments.release)
            print(f'release "{arguments.release}" uninstalled')


def _documents(manifest: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(kind, name) → document, of a manifest whose documents are JSON."""
    texts = re.split(r"^---$", manifest, flags=re.MULTILINE)[1:]
    documents = [json.loads(text[text.index("{") :]) for text in texts]
    return {(item["kind"], item["metadata"]["name"]): item for item in documents}


def _is_kept(document: Mapping[str, Any]) -> bool:
    return (document["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"


def _values(arguments: argparse.Namespace) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for file in arguments.f or ():
        values = _merged(values, json.loads(Path(file).read_text()))
    for item in arguments.set or ():
        key, _, text = item.partition("=")
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


def _options() -> argparse.ArgumentParser:
    """The options of helm 4: others are refused."""
    parser = argparse.ArgumentParser("helm", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    listed, got = verbs.add_parser("list"), verbs.add_parser("get")
    for state in _STATES:
        listed.add_argument(f"--{state}", action="store_true")
    listed.add_argument("--filter", required=True)
    got.add_argument("what", choices=("values", "manifest"))
    got.add_argument("--all", action="store_true")
    changing = [verbs.add_parser(verb) for verb in ("install", "upgrade", "uninstall")]
    for item in (got, *changing):
        item.add_argument("release")
    for item in changing[:2]:
        item.add_argument("chart")
        item.add_argument("-f", action="append")
        item.add_argument("--set", action="append")
        item.add_argument("--dry-run", action="store_true")
    for item in (listed, got, *changing):
        item.add_argument("-o", choices=("json",))
        item.add_argument("--namespace")
        item.add_argument("--kube-context")
    return parser
