"""All commands, by what people want to do with them: `rltui --help` prints this.

A command has its line here, and its arguments beside its function in `rltui.cli.commands`: so the names, and
what they are for, are known without importing any of those modules.
"""

from __future__ import annotations

from collections.abc import Mapping

BY_JOB: Mapping[str, Mapping[str, str]] = {
    "start and end a run": {
        "demo": "a real small run on the CPU, in the TUI",
        "up": "start an experiment headless; returns when all is ready",
        "down": "stop everything; leaves no process behind",
        "watch": "look at a run that somebody else started",
        "check": "validate a config; no side effects",
        "init": "write a commented layout for your own programs, by questions or options; or a workspace",
        "queue": "runs that wait for GPUs, and start by themselves",
        "sweep": "queue a run for each combination of values",
        "fork": "a new run with the config of another, or from a checkpoint of it",
        "rerun": "a run again, from its recorded config; tells what is another now",
        "k8s": "Helm releases of prime-rl's chart, on Kubernetes",
    },
    "look at it": {
        "status": "components, step and reward of a run; of all that are alive",
        "describe": "command, variables, folder, pid, ports, config and attempts",
        "logs": "what a component printed; all of them are searched at once",
        "metrics": "the curves of a run, whole and up to now",
        "rollouts": "what the model wrote, and its rewards",
        "events": "the journal: starts, exits, edits with their diffs, alerts, notes",
        "gpus": "the GPUs of this box and who holds their memory",
        "eval": "evaluations: run, list, compare, cancel",
        "checkpoints": "checkpoints: list, prune, upload, use in a config",
        "knobs": "every knob: value, default, bounds, readers",
        "diff": "what the files say beside what runs; or two attempts, or runs",
        "attach": "show the tmux pane of a component, or a shell where it runs",
    },
    "change it": {
        "set": "edit the TOML; prints the diff and the restart set",
        "undo": "take back the newest edit of the config, or make it again",
        "convert": (
            "count the batch in tokens instead of rollouts, or back; or write a config for another framework"
        ),
        "start": "start components (all, where none is named) and what they need",
        "stop": "stop components and what depends on them",
        "restart": "restart components, and those that must restart with them",
        "promote": (
            "what a run's own copy of the config has changed, written into the files that it was made of"
        ),
    },
    "all runs": {
        "runs": "all runs: list, compare, tag, rename, archive, delete",
    },
    "this box, and help": {
        "doctor": "check that this box, or nodes, have what rltui needs",
        "trust": (
            "let rltui run what a folder holds without a start: a layout's gpu_source, a checkout's python"
        ),
        "keys": "the keys of the TUI, as they are mapped now",
        "completion": "what a shell completes: source <(rltui completion bash)",
        "help": "read about a topic or a command; --man: all as a manual page",
    },
}
"""Job → name → a sentence about it, without capital and full stop."""
INTERNAL: Mapping[str, str] = {
    "open": "open an experiment in the TUI",
    "serve": "answer an rltui on another machine that named this one with --host",
}
"""Commands that no list shows: `open` is what a command line without a command means."""
VERBS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "list": "list runs, living and finished",
        "show": "show all that is known of a run",
        "compare": "compare runs: the keys that differ, the metrics",
        "export": "write a report of a run: Markdown, curves, configs",
        "tag": "list, add and remove tags",
        "rename": "rename a run",
        "note": "show or write the note of a run",
        "star": "star the best runs",
        "archive": "hide runs from the list",
        "unarchive": "list archived runs again",
        "rm": "move runs to the trash, folder and all",
        "prune": "move old runs to the trash, by a rule",
        "restore": "take runs out of the trash",
        "trash": "list the trash, or empty it",
        "add": "add runs that rltui did not start",
    },
    "checkpoints": {
        "list": "list the checkpoints of a run",
        "prune": "delete old checkpoints, by a rule",
        "restore": "bring back what a restart has set aside",
        "upload": "upload weights to the Hugging Face hub, by `hf`",
        "use": "make trained weights the model of a config, as an edit",
    },
    "eval": {
        "list": "list evaluations, and what waits",
        "run": "evaluate the model: now, a checkpoint, the base model",
        "compare": "compare evaluations with one of them",
        "cancel": "take an evaluation from the queue, or end it",
    },
    "gpus": {
        "list": "list the GPUs and who holds their memory",
        "orphans": "list processes that outlived their component, or end them",
    },
    "queue": {
        "list": "list what waits and why, what runs, what has ended",
        "add": "queue a run; takes all that `rltui up` takes",
        "cancel": "take runs from the queue; forget those that have ended",
        "pause": "start no more runs; running ones continue",
        "resume": "start runs again, also after a reboot",
        "move": "move a run in the queue",
        "retry": "queue runs again, with the config files as they are now",
        "limit": "limit how many run at once on this machine",
    },
    "events": {
        "list": "the journal: starts, exits, edits with their diffs, alerts, notes",
        "add": "write a sentence into the journal; it is a mark on the charts",
    },
    "k8s": {
        "status": "pods, why they wait, what runs in them; the shared data",
        "up": "install a release; shows its values, and asks",
        "upgrade": "give a release other values; shows what changes, and asks",
        "watch": "open a release: its pods are followed like components here",
        "logs": "what a pod prints, from the cluster itself",
        "exec": "a shell in a pod, or a command",
        "down": "uninstall a release; its data stays unless you say so",
    },
}
"""Command with verbs → verb → a sentence about it. The command alone is its first verb."""
FORMER: Mapping[str, str] = {
    "add": "runs add",
    "archive": "runs archive",
    "best": "runs star",
    "compare": "runs compare",
    "evals": "eval list",
    "export": "runs export",
    "layouts": "init --list",
    "ls": "status",
    "man": "help --man",
    "note": "events add",
    "orphans": "gpus orphans",
    "publish": "checkpoints upload",
    "redo": "undo --redo",
    "restore": "runs restore",
    "rm": "runs rm",
    "shell": "attach --shell",
    "tag": "runs tag",
    "trash": "runs trash",
    "unarchive": "runs unarchive",
    "use-checkpoint": "checkpoints use",
}
"""A word that people may type for a command → the command."""
SENTENCES: Mapping[str, str] = {name: text for commands in BY_JOB.values() for name, text in commands.items()}
"""Name → sentence of every command, in the order of the overview."""


def sentence_of(name: str) -> str:
    """The sentence about a command, or about a verb: `queue add`."""
    noun, _, verb = name.partition(" ")
    return VERBS[noun][verb] if verb else {**SENTENCES, **INTERNAL}[noun]
