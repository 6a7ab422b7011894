"""Where a chart and its values are found, and how values are told."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import NotFoundError, RltuiError, UsageError
from rltui.services.hosts.helm import Helm, ReleaseRequest, chart_folder, flat, values_files


def chart(folder: Path) -> Path:
    (folder / "examples").mkdir(parents=True)
    (folder / "Chart.yaml").touch()
    (folder / "examples/reverse-text.yaml").touch()
    return folder


def test_a_chart_is_found_where_the_page_of_prime_rl_has_people_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no prime-rl chart here"):
        chart_folder(None, None)
    elsewhere = chart(tmp_path / "checkout/k8s/prime-rl")
    assert chart_folder(None, tmp_path / "checkout") == str(elsewhere)
    chart(tmp_path / "k8s/prime-rl")
    assert chart_folder(None, tmp_path / "checkout") == "./k8s/prime-rl"
    monkeypatch.chdir(tmp_path / "k8s")
    assert chart_folder(None, None) == "./prime-rl"
    assert chart_folder("./prime-rl", None) == "./prime-rl"
    assert chart_folder("oci://registry/prime-rl", None) == "oci://registry/prime-rl"
    with pytest.raises(UsageError, match="is not a chart"):
        chart_folder("prime-rl/examples", None)


def test_an_example_of_the_chart_is_a_file_of_values(tmp_path: Path) -> None:
    made = str(chart(tmp_path / "prime-rl"))
    own = tmp_path / "mine.yaml"
    own.touch()
    assert values_files([str(own), "reverse-text"], made) == (str(own), f"{made}/examples/reverse-text.yaml")
    with pytest.raises(NotFoundError, match=r"^file not found: reverse_text\n") as caught:
        values_files(["reverse_text"], made)
    assert caught.value.hint == "examples of the chart: reverse-text"


def test_where_helm_keeps_its_records_elsewhere_nothing_is_uninstalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with HELM_DRIVER=configmap: there is no Secret."""
    program(tmp_path, "kubectl", "echo '{\"items\": []}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RltuiError, match="cannot read helm's record of my-exp") as caught:
        Helm(Kubectl()).keep("my-exp", {"my-exp-shared-data"})
    assert "nothing was uninstalled" in (caught.value.hint or "")


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_claim_is_kept_in_helms_own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = "kind: PersistentVolumeClaim\nmetadata:\n  name: data\n"
    manifest = f"---\nkind: Service\n---\n{claim}"
    release = gzip.compress(json.dumps({"manifest": manifest}).encode())
    kept = json.dumps({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": "…"}})
    secrets = [
        {
            "metadata": {"name": f"v{number}", "resourceVersion": "7", "labels": {"version": str(number)}},
            "data": {"release": base64.b64encode(base64.b64encode(release)).decode() if number == 10 else ""},
        }
        for number in (9, 10)
    ]
    (tmp_path / "secrets").write_text(json.dumps({"items": secrets}))
    (tmp_path / "kept").write_text(kept)
    (tmp_path / "manifest").write_text("---\nkind: Service\n")
    cases = "get) cat secrets;; annotate) cat >/dev/null; cat kept;; patch) cat >patch;;"
    program(tmp_path, "kubectl", f'case "$1" in {cases} esac')
    program(tmp_path, "helm", "cat manifest")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    Helm(Kubectl()).keep("my-exp", {"data"})
    patch = json.loads((tmp_path / "patch").read_text())
    assert patch["metadata"] == {"resourceVersion": "7"}
    record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(patch["data"]["release"]))))
    assert record == {"manifest": f"---\nkind: Service\n---\n{kept}\n"}
    (tmp_path / "manifest").write_text(manifest)
    with pytest.raises(RltuiError, match="helm would still delete data"):
        Helm(Kubectl()).keep("my-exp", {"data"})


def test_the_words_are_those_that_the_page_types() -> None:
    wish = ReleaseRequest("my-exp", "./prime-rl", ("v.yaml",), ("trainer.autoStart=false",))
    json_output = " ".join(Helm(Kubectl("big", "rl")).argv(*wish.argv("install")))
    assert json_output == (
        "helm install my-exp ./prime-rl -f v.yaml --set trainer.autoStart=false"
        " --kube-context=big --namespace=rl"
    )


def test_values_are_told_as_set_takes_them() -> None:
    values = {"trainer": {"autoStart": True, "env": [], "gpu": {"count": 2}}, "name": "x", "empty": {}}
    assert dict(flat(values)) == {
        "trainer.autoStart": "true",
        "trainer.env": "[]",
        "trainer.gpu.count": "2",
        "name": "x",
        "empty": "{}",
    }


def test_the_claims_of_a_release_are_those_that_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = "kind: PersistentVolumeClaim\nmetadata:\n  name: data\n"
    kept = f'{claim}  annotations:\n    "helm.sh/resource-policy": keep\n'
    (tmp_path / "manifest").write_text(f"---\nkind: Service\n---\n{claim}---\n{kept}")
    described = '{"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}'
    program(tmp_path, "helm", "cat manifest")
    program(tmp_path, "kubectl", f"cat >/dev/null; echo '{described}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Helm(Kubectl()).claims("my-exp") == {"data"}
