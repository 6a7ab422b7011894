"""Helm releases of prime-rl's chart: what helm is asked, and what it answers."""

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

from rltui.errors import RltuiError, UsageError
from rltui.services import subprocesses
from rltui.services.kube import KEEP_ANNOTATION, Kubectl

_ANSWER_S = 60.0
_CHART = Path("k8s/prime-rl")
"""In a checkout of prime-rl."""
_EXAMPLES = "examples"
_VALUES = frozenset({".yaml", ".yml", ".json"})
_STATES = ("--deployed", "--failed", "--pending", "--uninstalling", "--uninstalled")
"""All but those of earlier revisions. Helm 4 lists every state and has no `--all`, Helm 3 has both."""
_NOTHING_DONE = "nothing was uninstalled, since the data would have gone, too; with --delete-data it may"
_BETWEEN_DOCUMENTS = re.compile(r"^---\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Helm:
    kubectl: Kubectl

    def words(self, *words: str) -> tuple[str, ...]:
        where = [f"--kube-context={self.kubectl.context}"] if self.kubectl.context else []
        where += [f"--namespace={self.kubectl.namespace}"] if self.kubectl.namespace else []
        return ("helm", *words, *where)

    def said(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        """The document that it answers with.

        Raises:
            RltuiError: if it fails, or answers with something else.
        """
        if shutil.which("helm") is None:
            raise RltuiError("there is no helm on this machine", hint="https://helm.sh/docs/intro/install")
        said = subprocesses.ask(self.words(*words, "-o", "json"), timeout_s=_ANSWER_S)
        try:
            return json.loads(said)
        except ValueError as error:
            raise RltuiError(f"helm {words[0]} answers what is no JSON") from error

    def release(self, name: str) -> Mapping[str, Any] | None:
        """What its list says of a release; `None` where it has none of that name. Raises RltuiError."""
        listed = self.said("list", *_STATES, "--filter", f"^{name}$")
        return next((each for each in listed or () if each.get("name") == name), None)

    def values(self, name: str, *, every: bool) -> Mapping[str, Any]:
        """Those of a release that is there; `every`: also what its chart says. Raises RltuiError."""
        return self.said("get", "values", name, *(["--all"] if every else [])) or {}

    def claims(self, name: str) -> frozenset[str]:
        """Names of the claims that go with the release when it is uninstalled. Raises RltuiError."""
        manifest = subprocesses.ask(self.words("get", "manifest", name), timeout_s=_ANSWER_S)
        return frozenset(claim for _, claim, _ in _claims(manifest.decode()))

    def keep(self, name: str, claims: Collection[str]) -> None:
        """Have these claims stay when the release is uninstalled.

        Helm goes by what its own record of the release says of an object, whatever the object says now, and
        has no option for it; so the record is changed: a Secret, with the release as JSON, gzip, base64.

        Raises:
            RltuiError: if that cannot be done; nothing was changed.
        """
        ask = self.kubectl.words
        said = subprocesses.ask(
            ask("get", "secrets", f"--selector=owner=helm,name={name}", "-o", "json"), timeout_s=_ANSWER_S
        )
        try:
            newest = max(
                json.loads(said)["items"], key=lambda each: int(each["metadata"]["labels"]["version"])
            )
            packed = base64.b64decode(base64.b64decode(newest["data"]["release"]))
            record = json.loads(gzip.decompress(packed))
            for document, claim, kept in _claims(record["manifest"]):
                if claim in claims:
                    record["manifest"] = record["manifest"].replace(document, f"\n{kept}\n", 1)
        except (ValueError, LookupError, TypeError, OSError, EOFError) as error:
            raise RltuiError(f"helm's record of {name} cannot be read", hint=_NOTHING_DONE) from error
        written = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode())))
        version = newest["metadata"][
            "resourceVersion"
        ]  # with it, the patch is refused where somebody was faster
        patch = {"metadata": {"resourceVersion": version}, "data": {"release": written.decode()}}
        command = ask(
            "patch", "secret", newest["metadata"]["name"], "--type=merge", "--patch-file=/dev/stdin"
        )
        subprocesses.ask(command, timeout_s=_ANSWER_S, stdin=json.dumps(patch).encode())
        if lost := self.claims(name) & {*claims}:
            raise RltuiError(f"helm would still delete {', '.join(sorted(lost))}", hint=_NOTHING_DONE)


@dataclass(frozen=True, slots=True)
class ReleaseWish:
    name: str
    chart: str
    """Path or address, as helm takes it."""
    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def words(self, verb: Literal["install", "upgrade"]) -> tuple[str, ...]:
        """For `Helm.words`."""
        files = [word for file in self.files for word in ("-f", file)]
        sets = [word for value in self.sets for word in ("--set", value)]
        return (verb, self.name, self.chart, *files, *sets)

    def values(
        self, helm: Helm, verb: Literal["install", "upgrade"]
    ) -> tuple[Mapping[str, Any], frozenset[str]]:
        """What its values would be, beside those of the chart, and its claims: helm's own reading of them.

        Raises:
            RltuiError: if helm refuses it; nothing was made.
        """
        said = helm.said(*self.words(verb), "--dry-run")
        found = said if isinstance(said, dict) else {}
        claims = frozenset(claim for _, claim, _ in _claims(found.get("manifest") or ""))
        return found.get("config") or {}, claims


def _claims(manifest: str) -> Iterator[tuple[str, str, str]]:
    """Of each claim that goes with its release: the document, its name, the document with which it stays."""
    for document in _BETWEEN_DOCUMENTS.split(manifest):
        if "PersistentVolumeClaim" in document and KEEP_ANNOTATION not in document:
            command = ("kubectl", "annotate", "--local", "-f", "-", f"{KEEP_ANNOTATION}=keep", "-o", "json")
            kept = subprocesses.ask(command, timeout_s=_ANSWER_S, stdin=document.encode())
            described = json.loads(kept)
            if described["kind"] == "PersistentVolumeClaim":
                yield document, described["metadata"]["name"], kept.decode()


def chart_folder(named: str | None, checkout: Path | None) -> str:
    """The chart: as named, else the one here or in `checkout`, of prime-rl.

    Raises:
        UsageError: if there is none.
    """
    if named is not None:
        if (Path(named) / "Chart.yaml").is_file() or named.endswith(".tgz") or "://" in named:
            return named
        raise UsageError(f"{named} is no chart: there is no Chart.yaml in it", hint="name the folder of one")
    places = [Path("prime-rl"), _CHART, *([] if checkout is None else [checkout / _CHART])]
    for path in places:
        if (path / "Chart.yaml").is_file():
            return str(path) if path.is_absolute() else f"./{path}"
    raise UsageError(
        "there is no chart of prime-rl here",
        hint="run it in a checkout of prime-rl or in its folder k8s, or name the chart: --chart DIR",
    )


def values_files(named: Sequence[str], chart: str) -> tuple[str, ...]:
    """Their paths: a plain word is one of the chart's examples.

    Raises:
        UsageError: if one is not there.
    """
    return tuple(_values_file(name, chart) for name in named)


def _values_file(name: str, chart: str) -> str:
    if Path(name).is_file() or "://" in name:
        return name
    folder = sorted(Path(chart, _EXAMPLES).glob("*"))
    examples = {path.stem: path.name for path in folder if path.suffix in _VALUES}
    if name in examples:
        return f"{chart}/{_EXAMPLES}/{examples[name]}"
    known = f"examples of the chart: {', '.join(examples)}" if examples else ""
    raise UsageError(f"there is no file {name}", hint=known or "name a file of values")


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and value of each leaf, as `--set` has them."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value)
