"""All commands, by what people want to do with them: `rltui --help` prints this.

A command has its line here, and its arguments beside its function in `rltui.cli.commands`: so the names, and
what they are for, are known without importing any of those modules.
"""

from __future__ import annotations

from collections.abc import Mapping

BY_JOB: Mapping[str, Mapping[str, str]] = {
    "start and end runs": {
        "demo": "try a small real run on the CPU",
        "up": "start a run without the TUI; return when it is ready",
        "down": "stop a run; no process is left",
        "watch": "watch a run that somebody else started",
        "check": "check a config; changes nothing",
        "init": "write a layout for your own programs, or make a workspace",
        "queue": "queue runs that start when GPUs are free",
        "sweep": "queue a run for each combination of values",
        "fork": "start a new run with the config, or a checkpoint, of another",
        "rerun": "start a run again from its recorded config",
        "k8s": "make and follow Helm releases of prime-rl's chart",
    },
    "look at a run": {
        "status": "show components, step and reward of a run, or of all runs",
        "describe": "show command, environment, folder, pid, ports, config, attempts",
        "logs": "print, follow and search the logs of components",
        "metrics": "print or plot the metrics of a run",
        "rollouts": "read rollouts and their rewards",
        "events": "list what happened to a run; add a note",
        "gpus": "show GPUs and who holds their memory; end orphans",
        "eval": "evaluate the model; list and compare evaluations",
        "checkpoints": "list, prune, upload and use checkpoints",
        "knobs": "list the knobs: value, default, bounds, readers",
        "diff": "compare the files with what is running, attempts, or runs",
        "attach": "open the terminal of a component, or a shell where it runs",
    },
    "change a run": {
        "set": "edit knobs; shows the diff and what must restart",
        "undo": "undo the last edit of the config, or redo it",
        "convert": "count the batch in tokens or rollouts; convert a config to prime-rl",
        "start": "start components, by default all, and what they need",
        "stop": "stop components and their dependents",
        "restart": "restart components and their dependents",
        "promote": "write the changes of a run's own config into your files",
    },
    "all runs": {
        "runs": "list, compare, tag, rename, archive and delete runs",
    },
    "this machine, and help": {
        "doctor": "check this machine, or the nodes of a layout",
        "trust": "trust the programs in a folder before any start",
        "keys": "list the keys of the TUI",
        "completion": "print the completion script for a shell",
        "help": "show a topic or a command; --man prints the manual page",
    },
}
"""Job → name → a sentence about it, without capital and full stop."""
INTERNAL: Mapping[str, str] = {
    "open": "open a run in the TUI",
    "serve": "answer an rltui on another machine that named this one with --host",
}
"""Commands that no list shows: `open` is what a command line without a command means."""
VERBS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "list": "list runs, living and finished",
        "show": "show everything that is known about a run",
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
        "list": "list what waits and why, what is running, what has ended",
        "add": "queue a run; takes all that `rltui up` takes",
        "cancel": "take runs from the queue; forget those that have ended",
        "pause": "start no more runs; running ones continue",
        "resume": "start runs again, also after a reboot",
        "move": "move a run in the queue",
        "retry": "queue runs again, with the config files as they are now",
        "limit": "limit how many run at once on this machine",
    },
    "events": {
        "list": "list starts, exits, edits with diffs, alerts and notes",
        "add": "add a note, which is also a mark on the charts",
    },
    "k8s": {
        "status": "show pods, why they wait, what runs in them, and the shared data",
        "up": "install a release; shows its values and asks",
        "upgrade": "change the values of a release; shows the changes and asks",
        "watch": "open a release; each pod is a component",
        "logs": "print the log of a pod, from the cluster",
        "exec": "open a shell in a pod, or run a command",
        "down": "uninstall a release; its data stays unless you delete it",
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
    "queue ls": "queue list",
    "queue rm": "queue cancel",
    "redo": "undo --redo",
    "restore": "runs restore",
    "rm": "runs rm",
    "shell": "attach --shell",
    "tag": "runs tag",
    "trash": "runs trash",
    "unarchive": "runs unarchive",
    "use-checkpoint": "checkpoints use",
}
"""Words that people may type for a command → the command."""
SENTENCES: Mapping[str, str] = {name: text for commands in BY_JOB.values() for name, text in commands.items()}
"""Name → sentence of every command, in the order of the overview."""


def sentence_of(name: str) -> str:
    """The sentence about a command, or about a verb: `queue add`."""
    noun, _, verb = name.partition(" ")
    return VERBS[noun][verb] if verb else {**SENTENCES, **INTERNAL}[noun]
