"""What the command line prints of runs that have ended, byte by byte, and its exit codes."""

from __future__ import annotations

import shlex

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.contracts.conftest import RecordedBox

TEXTS = """\
status
status first
status second
runs
runs --all --group
runs tag:good
runs 'state = failed' --columns name,state,step,reward,seed
runs --sort reward --csv
runs compare first second
runs compare first second --all-keys
runs compare first second --md
checkpoints first
checkpoints prune first --keep-last 1 --plan
eval list first
eval compare first 1
events first --brief
events first --kind edit,note
events second --kind exit,alert
metrics first
metrics first reward --limit 5
metrics first reward kl --csv
rollouts outputs/first/run --step 24 --worst 2
rollouts first --step 24 --best 1 --full
rollouts first --eval --worst 1
knobs first lr
knobs first batch -v
diff first second
diff first -c trainer#1
diff first --original
logs first -c trainer --limit 3
queue
runs tag
runs note first
runs show first
runs trash
runs prune --keep-last 1 --plan
restart first -c trainer --plan
restart first --from 8 --plan
restart first --from-scratch --plan
set first batch_size=64 --plan
set first lr=50 --plan
set first trainer.optim.weight_decay=0.1 --plan
undo first --plan
fork first --from best --plan -n fourth
fork first --set lr=1e-4 --plan -n fourth
check rl.toml
init --list
keys
keys checkpoint restart
runs tag --json
metrics first reward --limit 2 --json
checkpoints prune first --keep-last 1 --plan --json
""".splitlines()
DOCUMENTS = """\
status
status first
status second
runs
runs show first
runs compare first second
checkpoints first
eval list first
events first --kind edit,note,checkpoint
metrics first reward
rollouts first --step 24 --worst 1
knobs first lr
diff first second
queue
restart first --from 8 --plan
set first lr=50 --plan
check rl.toml
""".splitlines()
REFUSALS = """\
status nosuch
runs --sort nosuch
runs 'reward >'
runs compare first
runs compare first nosuch
checkpoints nosuch
restart first --from 7
restart first -c nosuch
set first nosuch=1
set first batch_size=five
set first batch_size=33
set first lr
fork nosuch
eval compare first 9
logs first -c nosuch
metrics first nosuch
rollouts first --step 99
up nosuch.toml
up rl.toml --set nosuch=1
check nosuch.toml
queue cancel nosuch
runs note nosuch
runs tag +a+,b first
runs rm nosuch
runs rename first second
runs rename first "a b"
runs prune
help nosuch
statsu
""".splitlines()


@pytest.mark.xdist_group("contracts-texts")
@pytest.mark.parametrize("line", TEXTS)
def test_text(line: str, shared_box: RecordedBox, snapshot: SnapshotAssertion) -> None:
    assert shared_box.output(*shlex.split(line)) == snapshot


@pytest.mark.xdist_group("contracts-documents")
@pytest.mark.parametrize("line", DOCUMENTS)
def test_document(line: str, shared_box: RecordedBox, snapshot: SnapshotAssertion) -> None:
    assert shared_box.document(*shlex.split(line)) == snapshot


@pytest.mark.xdist_group("contracts-documents")
def test_document_of_keys(shared_box: RecordedBox, snapshot: SnapshotAssertion) -> None:
    """Of some two hundred actions one with several uses; the others have the same fields."""
    document = shared_box.document("keys", "--keymap", "vim")
    actions = {action["id"]: action for action in document["keys"]}
    assert {frozenset(action) for action in actions.values()} == {frozenset(actions["undo"])}
    assert {**document, "keys": actions["undo"]} == snapshot


@pytest.mark.xdist_group("contracts-documents")
@pytest.mark.parametrize("line", REFUSALS)
def test_refusal(line: str, shared_box: RecordedBox, snapshot: SnapshotAssertion) -> None:
    """Nothing is done, and stderr says why and what to do."""
    output = shared_box.output(*shlex.split(line))
    assert "[exit 0]" not in output
    assert output == snapshot
