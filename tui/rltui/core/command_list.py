"""All commands, by what people want to do with them: `rltui --help` prints this.

A command has its line here, and its arguments beside its function in `rltui.cli.commands`: so the names, and
what they are for, are known without importing any of those modules.
"""

from __future__ import annotations

from collections.abc import Mapping

BY_JOB: Mapping[str, Mapping[str, str]] = {
    "start and end runs": {
        "demo": "train a small model on the CPU, to try rltui",
        "up": "start a run without the TUI; return when it is ready",
        "down": "stop a run and all its processes",
        "watch": "follow a run that rltui did not start",
        "check": "check a config and whether it can start here",
        "init": "create a layout for your own programs, or a workspace",
        "queue": "queue runs that start when GPUs are free",
        "sweep": "queue one run per combination of values",
        "fork": "start a new run from the config or a checkpoint of another",
        "rerun": "repeat a run from its recorded config",
        "k8s": "install and follow Helm releases of prime-rl's chart",
    },
    "look at a run": {
        "status": "show the components, step and reward of a run, or all runs",
        "describe": "show the command, environment, pid, ports and config of components",
        "logs": "print, follow and search the logs of components",
        "metrics": "print or plot the metrics of a run",
        "rollouts": "show rollouts and their rewards",
        "events": "list the events of a run; add a note",
        "gpus": "list GPUs and the processes that hold their memory; end orphans",
        "eval": "evaluate the model; list and compare evaluations",
        "checkpoints": "list, prune, upload and use checkpoints",
        "knobs": "list the knobs: value, default, bounds, readers",
        "diff": "compare the config files with the running config, attempts or runs",
        "attach": "open the terminal of a component, or a shell in its environment",
    },
    "change a run": {
        "set": "set knobs in the config; shows the diff and what must restart",
        "undo": "undo or redo the last edit of the config",
        "convert": "convert the batch size to tokens or rollouts, or a config to prime-rl",
        "start": "start components (default: all) and their dependencies",
        "stop": "stop components (default: all) and their dependents",
        "restart": "restart components (default: all) and their dependents",
        "promote": "write the changes in a run's own config back to your files",
    },
    "all runs": {
        "runs": "list, compare, tag, rename, archive and delete runs",
    },
    "for agents and scripts": {
        "wait": "return once a run is ready or done, has reached a step or a metric, or has an alert",
        "mcp": "serve the tools for agents, over MCP, on stdin and stdout",
        "skill": "print a guide for coding agents, or install it as a skill",
        "why": "explain the state of a run or component: cause, evidence, what helps",
        "bench": "try changes one at a time; keep what beats the noise",
        "agents": "see what agents may do; accept or decline their proposals; pause them",
    },
    "this machine, and help": {
        "doctor": "check this machine, or the nodes of a layout",
        "trust": "allow rltui to run the programs in a folder",
        "keys": "list the keys of the TUI",
        "completion": "print the completion script of a shell",
        "help": "show help on a topic or a command; --man shows the man page",
    },
}
"""Job → name → a sentence about it, without capital and full stop."""
INTERNAL: Mapping[str, str] = {
    "open": "open a run in the TUI",
    "serve": "serve an rltui on another machine, which started it with --host",
}
"""Commands that no list shows: `open` is what a command line without a command means, and what opens a run
that is named like a command."""
VERBS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "list": "list running and ended runs",
        "show": "show all details of a run",
        "compare": "compare runs: config keys that differ, and metrics",
        "export": "write a report of a run: Markdown, curves, configs",
        "tag": "list, add and remove tags",
        "rename": "rename a run",
        "note": "show or set the note of a run",
        "star": "star runs, or remove their stars",
        "archive": "hide runs from the list",
        "unarchive": "list archived runs again",
        "rm": "move runs and their folders to the trash",
        "prune": "move old runs to the trash",
        "restore": "restore runs from the trash",
        "trash": "list or empty the trash",
        "add": "add runs that rltui did not start",
    },
    "checkpoints": {
        "list": "list the checkpoints of a run",
        "prune": "delete old checkpoints",
        "restore": "restore checkpoints that a restart has set aside",
        "upload": "upload weights to the Hugging Face Hub with `hf`",
        "use": "use trained weights as the model of a config",
    },
    "eval": {
        "list": "list evaluations, including queued ones",
        "run": "evaluate the current weights, a checkpoint or the base model",
        "compare": "compare evaluations with a baseline",
        "cancel": "cancel a queued or running evaluation",
    },
    "gpus": {
        "list": "list GPUs and the processes that hold their memory",
        "orphans": "list or end processes that outlived their component",
    },
    "queue": {
        "list": "list queued, running and ended runs, and why runs wait",
        "add": "queue a run; takes the options of `rltui up`, too",
        "wait": "return once queued and running runs have ended",
        "cancel": "cancel queued and running runs; remove ended ones from the list",
        "pause": "pause the queue; running runs continue",
        "resume": "resume the queue, also after a reboot",
        "move": "move a run in the queue",
        "retry": "queue runs again with the current config files",
        "limit": "limit the number of concurrent runs",
    },
    "bench": {
        "run": "start a bench: baseline, its noise, then one trial per change",
        "list": "list benches",
        "show": "show the ledger of a bench: changes, scores, verdicts, cost",
        "try": "add a trial to a bench",
        "stop": "end a bench; a run that has started continues",
    },
    "events": {
        "list": "list starts, exits, edits with diffs, alerts and notes",
        "add": "add a note, shown as a mark on charts",
    },
    "agents": {
        "status": "show rights, limits, agents at work and open proposals",
        "proposals": "list the proposals of agents",
        "accept": "accept a proposal, or let a queued run of an agent start",
        "decline": "decline a proposal with a word for the agent",
        "pause": "let agents only look, on all runs",
        "resume": "end the pause",
        "rights": "show or set the rights of agents on a run",
        "budget": "list GPU hours by agent, person and run",
    },
    "k8s": {
        "status": "show pods, their states and programs, and the shared volume",
        "up": "install a release; shows its values and asks",
        "upgrade": "change the values of a release; shows the changes and asks",
        "watch": "open a release in the TUI; each pod is a component",
        "logs": "print the log of a pod, from the cluster",
        "exec": "open a shell or run a command in a pod",
        "down": "uninstall a release; its data is kept by default",
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


def is_command(word: str) -> bool:
    """True if `rltui WORD` is a command; a run of that name is opened with `rltui open WORD`."""
    return word in SENTENCES or word in INTERNAL


def sentence_of(name: str) -> str:
    """The sentence about a command, or about a verb: `queue add`."""
    noun, _, verb = name.partition(" ")
    return VERBS[noun][verb] if verb else {**SENTENCES, **INTERNAL}[noun]
