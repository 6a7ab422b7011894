"""Helm releases of a framework's chart: commands, and the parsing of their output."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import NotFoundError, RltuiError, UsageError
from rltui.frameworks.charts import CHART
from rltui.services.hosts.kube import KEEP_ANNOTATION
from rltui.services.processes import subprocesses

_TIMEOUT_S = 60.0
_EXAMPLES = "examples"
_VALUES = frozenset({".yaml", ".yml", ".json"})
_STATES = ("--deployed", "--failed", "--pending", "--uninstalling", "--uninstalled")
"""All states except those of earlier revisions. Helm 4 lists every state and has no `--all`, Helm 3 has
both.
"""
_NOTHING_DONE = (
    "nothing was uninstalled: the release's data would be deleted, too; to allow that: --delete-data"
)
_BETWEEN_DOCUMENTS = re.compile(r"^---\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Helm:
    kubectl: Kubectl

    def argv(self, *arguments: str) -> tuple[str, ...]:
        options = [f"--kube-context={self.kubectl.context}"] if self.kubectl.context else []
        options += [f"--namespace={self.kubectl.namespace}"] if self.kubectl.namespace else []
        return ("helm", *arguments, *options)

    def json_output(self, *arguments: str) -> Any:  # noqa: ANN401 - JSON
        """Run a helm command and parse its JSON output.

        Raises:
            RltuiError: if it fails, or prints something else.
        """
        if shutil.which("helm") is None:
            raise RltuiError("helm is not installed", hint="https://helm.sh/docs/intro/install")
        output = subprocesses.check_output(self.argv(*arguments, "-o", "json"), timeout_s=_TIMEOUT_S)
        try:
            return json.loads(output)
        except ValueError as error:
            raise RltuiError(f"helm {arguments[0]} did not print JSON") from error

    def release(self, name: str) -> Mapping[str, Any] | None:
        """Helm's list entry of a release; `None` if there is none of that name. Raises RltuiError."""
        releases = self.json_output("list", *_STATES, "--filter", f"^{name}$")
        return next((release for release in releases or () if release.get("name") == name), None)

    def values(self, name: str, *, every: bool) -> Mapping[str, Any]:
        """Values of an existing release; `every`: including those of its chart. Raises RltuiError."""
        return self.json_output("get", "values", name, *(["--all"] if every else [])) or {}

    def claims(self, name: str) -> frozenset[str]:
        """Names of the volume claims that are deleted with the release. Raises RltuiError."""
        manifest = subprocesses.check_output(self.argv("get", "manifest", name), timeout_s=_TIMEOUT_S)
        return frozenset(claim for _, claim, _ in _claims(manifest.decode()))

    def keep(self, name: str, claims: Collection[str]) -> None:
        """Have these claims survive the release.

        Helm uses its own record of the release for an object, whatever the object says now, and has no option
        for it; so the record is changed: a Secret, with the release as JSON, gzip, base64.

        Raises:
            RltuiError: if that fails; nothing was changed.
        """
        kubectl_argv = self.kubectl.argv
        output = subprocesses.check_output(
            kubectl_argv("get", "secrets", f"--selector=owner=helm,name={name}", "-o", "json"),
            timeout_s=_TIMEOUT_S,
        )
        try:
            newest = max(
                json.loads(output)["items"], key=lambda secret: int(secret["metadata"]["labels"]["version"])
            )
            compressed = base64.b64decode(base64.b64decode(newest["data"]["release"]))
            record = json.loads(gzip.decompress(compressed))
            for document, claim, annotated in _claims(record["manifest"]):
                if claim in claims:
                    record["manifest"] = record["manifest"].replace(document, f"\n{annotated}\n", 1)
        except (ValueError, LookupError, TypeError, OSError, EOFError) as error:
            raise RltuiError(f"cannot read helm's record of {name}", hint=_NOTHING_DONE) from error
        encoded = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode())))
        # with the version, the patch is refused where somebody was faster
        version = newest["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "data": {"release": encoded.decode()}}
        command = kubectl_argv(
            "patch", "secret", newest["metadata"]["name"], "--type=merge", "--patch-file=/dev/stdin"
        )
        subprocesses.check_output(command, timeout_s=_TIMEOUT_S, stdin=json.dumps(patch).encode())
        if deletable := self.claims(name) & {*claims}:
            raise RltuiError(f"helm would still delete {', '.join(sorted(deletable))}", hint=_NOTHING_DONE)


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    name: str
    chart: str
    """Path or address, as helm takes it."""
    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def argv(self, verb: Literal["install", "upgrade"]) -> tuple[str, ...]:
        files = [argument for file in self.files for argument in ("-f", file)]
        sets = [argument for value in self.sets for argument in ("--set", value)]
        return (verb, self.name, self.chart, *files, *sets)

    def values(
        self, helm: Helm, verb: Literal["install", "upgrade"]
    ) -> tuple[Mapping[str, Any], frozenset[str]]:
        """The release's values, without those of the chart, and its claims, as helm reads them.

        Raises:
            RltuiError: if helm refuses it; nothing was created.
        """
        output = helm.json_output(*self.argv(verb), "--dry-run")
        document = output if isinstance(output, dict) else {}
        claims = frozenset(claim for _, claim, _ in _claims(document.get("manifest") or ""))
        return document.get("config") or {}, claims


def _claims(manifest: str) -> Iterator[tuple[str, str, str]]:
    """Yield each claim that is deleted with its release: the document, its name, and the document with which
    it survives.
    """
    for document in _BETWEEN_DOCUMENTS.split(manifest):
        if "PersistentVolumeClaim" in document and KEEP_ANNOTATION not in document:
            command = ("kubectl", "annotate", "--local", "-f", "-", f"{KEEP_ANNOTATION}=keep", "-o", "json")
            annotated = subprocesses.check_output(command, timeout_s=_TIMEOUT_S, stdin=document.encode())
            annotated_document = json.loads(annotated)
            if annotated_document["kind"] == "PersistentVolumeClaim":
                yield document, annotated_document["metadata"]["name"], annotated.decode()


def chart_folder(given: str | None, checkout: Path | None) -> str:
    """The chart: as given, else the one here or in `checkout`, of its framework.

    Raises:
        UsageError: if there is none.
    """
    if given is not None:
        if (Path(given) / "Chart.yaml").is_file() or given.endswith(".tgz") or "://" in given:
            return given
        raise UsageError(f"{given} is not a chart: no Chart.yaml in it", hint="name a chart's folder")
    folder, framework = CHART.folder, CHART.framework
    candidates = [Path(folder.name), folder, *([] if checkout is None else [checkout / folder])]
    for path in candidates:
        if (path / "Chart.yaml").is_file():
            return str(path) if path.is_absolute() else f"./{path}"
    raise UsageError(
        f"no {framework} chart here",
        hint=(
            f"run this in a checkout of {framework} or in its folder {folder.parent}, or name the chart:"
            " --chart FOLDER"
        ),
    )


def values_files(names: Sequence[str], chart: str) -> tuple[str, ...]:
    """Paths of values files: a plain name is one of the chart's examples.

    Raises:
        NotFoundError: if one does not exist.
    """
    return tuple(_values_file(name, chart) for name in names)


def _values_file(name: str, chart: str) -> str:
    if Path(name).is_file() or "://" in name:
        return name
    folder = sorted(Path(chart, _EXAMPLES).glob("*"))
    examples = {path.stem: path.name for path in folder if path.suffix in _VALUES}
    if name in examples:
        return f"{chart}/{_EXAMPLES}/{examples[name]}"
    examples_text = f"examples of the chart: {', '.join(examples)}" if examples else ""
    raise NotFoundError(f"file not found: {name}", hint=examples_text or "name a values file")


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and value of each leaf, in the notation of `--set`."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)
