"""Every command that a message advises, with the state that it is for. Pure, and cheap to import.

No message spells a command out: it renders one of these values. So a test parses them all, and tests follow
each from the state that printed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltui.core.command_list import VERBS, is_command

_SEGMENT = re.compile(r"\[[^\[\]]*\]|\S+")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Hint:
    """A command for one state. Rendered by calling it, or as text where it has no placeholders."""

    state: str
    """Id of the state that prints it."""
    command: str
    """Arguments of `rltui`. `{name}` stands for a value, of a list for its items, `[…]` is left out if a
    value in it is `None`; `{opened}` is a run to open, which may be named like a command; words in
    capitals are for the reader to fill in.
    """

    def __call__(self, **values: object) -> str:
        """The command line, with `values` quoted as a shell needs it."""
        argv = ["rltui"]
        for segment in _SEGMENT.findall(self.command):
            is_option = segment.startswith("[")
            if is_option and any(values.get(name) is None for name in _PLACEHOLDER.findall(segment)):
                continue
            for token in segment.strip("[]").split():
                words = _fill(token, values, after=argv[-1])
                if argv[-1] == "-c":  # once for each component
                    argv.pop()
                    words = [word for component in words for word in ("-c", component)]
                argv += words
        return " ".join(argv)

    def __str__(self) -> str:
        return self()


def _fill(token: str, values: Mapping[str, object], *, after: str) -> list[str]:
    """`after`: the word before it. A run may be named like a command, or like a verb of that word."""
    if not (names := _PLACEHOLDER.findall(token)):
        return [token]
    import shlex  # rarely needed

    value = values[names[0]]
    if names == ["opened"] and is_command(str(value)):
        return ["open", str(value)]
    if str(value) in (verbs := VERBS.get(after, ())):
        return [next(iter(verbs)), str(value)]
    if token == f"{{{names[0]}}}" and not isinstance(value, str) and isinstance(value, Sequence):
        return [shlex.quote(str(item)) for item in value]
    return [shlex.quote(_PLACEHOLDER.sub(lambda match: str(values[match[1]]), token))]


# --- a run that went bad, or died ---------------------------------------------------------------------------

UNDO_RESTART = Hint("died-after-edit", "undo [{name}] --restart")
UNDO_AND_GO_BACK = Hint("bad-since-newest-edit", "undo [{name}] --restart --from {step}")
SET_AND_GO_BACK = Hint("bad-since-older-edit", "set [{name}] {words} --restart --from {step}")
GO_BACK = Hint("bad-without-edit", "restart [{name}] --from {step}")
RESTART_KILLED = Hint("killed-from-outside", "restart [{name}] -c {component}")
RESTART_INFERENCE = Hint("weights-of-another-run", "restart [{name}] -c inference")
APPLY = Hint("edit-not-in-effect", "restart [{name}] -c {components}")
SET_RESTART = Hint("out-of-memory", "set [{name}] {words} --restart")
SET_WORDS = Hint("out-of-memory-by-another", "set [{name}] {words}")
LOGS = Hint("failed", "logs [{name}] -c {component} [--limit {lines}]")
WHY = Hint("failed", "why [{name}] [-c {component}]")
FREE_LEFTOVERS = Hint("leftovers", "gpus orphans [{name}] --end")
FREE = Hint("gpu-held-by-others", "gpus orphans [{name}] --end PID")
FORGET = Hint("left-on-a-lost-host", "gpus orphans [{name}] --forget {component}")
ORPHANS = Hint("leftovers-unknown", "gpus orphans [{name}]")

# --- starting and ending ------------------------------------------------------------------------------------

UP = Hint("nothing-there", "up CONFIG.toml")
UP_WITH = Hint("workspace-made", "up {config}")
DEMO = Hint("nothing-there", "demo")
UP_AGAIN = Hint("made-otherwise", "up {configs} -n {name} -o {folder} [-l {layout}] --resume")
UP_LAYOUT = Hint("layout-written", "up -l {layout} [{configs}]")
UP_ONLY = Hint("server-of-others-down", "up … --only {component}")
UP_OVERLAYS = Hint("names-others", "up @ BASE.toml @ THIS.toml")
UP_MEDARC = Hint("pasted-launcher", "up medarc_slurm …")
UP_HELP = Hint("wrong-slurm-option", "up --help")
START = Hint("not-started", "start [{name}] -c {component}")
START_DASHBOARD = Hint("no-dashboard", "start [{name}] -c dashboard")
START_RUN = Hint("server-of-others-down", "start [{name}]")
STOP = Hint("busy-or-alive", "stop [{name}] -c {components}")
DOWN = Hint("in-the-way", "[--host {host}] down {name}")
DOWN_ALL = Hint("several-alive", "down --all")
DOWN_MINE = Hint("mine-alone", "down --all --mine")
OPEN = Hint("alive-elsewhere", "[--host {host}] {opened}")
OPEN_READONLY = Hint("read-only", "--readonly NAME")
WATCH = Hint("layout-of-logs", "watch FOLDER --layout {layout}")
WATCH_RUN = Hint("several-runs-inside", "watch {folder}")
INIT = Hint("no-layout", "init NAME")
INIT_FROM = Hint("files-there", "init --from {kind} FOLDER")
INIT_WITH = Hint(
    "no-components", "init NAME --component serve='python serve.py' --component train='python train.py'"
)
TRUST = Hint("untrusted", "trust {folder}")
ON_HOST = Hint("nothing-on-host", "--host {host} up CONFIG.toml")
OF_HOST = Hint("serve-by-hand", "--host THIS_MACHINE")
ATTACH_TO = Hint("component-left-out", "attach [{name}] -c COMPONENT")
ATTACH = Hint("runs-in-a-terminal", "attach [{name}] -c {component}")
SHELL_IN = Hint("no-workspace", "attach --shell --workspace FOLDER")
SHELL = Hint("shell-open", "attach [{name}] --shell")
LAYOUTS = Hint("layouts", "init --list")

# --- looking ------------------------------------------------------------------------------------------------

STATUS = Hint("under-way", "status [{name}]")
STATUS_WATCH = Hint("watch-of-what", "status -w 2 NAME")
STATUS_ALL = Hint("more-ended", "status --all")
GPUS = Hint("unknown-device", "gpus")
KEYS = Hint("unknown-key", "keys --ids")
KNOBS_ALL = Hint("unknown-knob", "knobs [{name}] --all")
KNOBS_OF_FILES = Hint("unknown-knob-of-a-file", "knobs {files} --all")
DIFF = Hint("nothing-runs", "diff [{name}] -c COMPONENT")
DIFF_TWO = Hint("one-attempt", "diff [{name}] -c trainer#1 -c trainer#2")
CHECK = Hint("validates", "check CONFIG.toml")
CHECK_WITH = Hint("workspace-made", "check {config}")
DOCTOR = Hint("no-checkout", "doctor")
EVENTS = Hint("nothing-to-take-back", "events [{name}]")
CHECKPOINTS = Hint("no-such-checkpoint", "checkpoints [{name}]")
ROLLOUTS_ALL = Hint("empty-batches", "rollouts --all")
LOGS_GREP = Hint("samples-in-the-log", "logs -c {component} --grep {pattern}")
LOGS_OF = Hint("no-component", "logs [{name}] -c COMPONENT")
LOGS_FOLLOW = Hint("publishing", "logs [{name}] -c {component} -f")
ANSWER_FULL = Hint("answer-cut", "{answer} --full")
METRICS_ALL = Hint("unknown-metric", "metrics [{name}] --all")
METRICS_JSON = Hint("curve-left-out", "metrics reward --json")
METRICS_PLOT = Hint("more-metrics", "metrics [{name}] METRIC… --plot")
HELP = Hint("help", "help")
HELP_PAGE = Hint("help", "help {page}")
HELP_VERB = Hint("help", "help {noun} VERB")
HELP_TOPIC = Hint("help", "help TOPIC")
HELP_MCP = Hint("mcp-without-a-client", "help mcp-clients")
HELP_COMMAND = Hint("help", "help COMMAND")
COMMANDS = Hint("help", "--help")
OPTIONS = Hint("unknown-option", "{command} --help")
MAN = Hint("help", "help --man")

# --- the config ---------------------------------------------------------------------------------------------

SET = Hint("nothing-to-set", "set [{name}] KEY=VALUE…")
USE_CHECKPOINT = Hint("config-of-sft", "checkpoints use STEP --config rl.toml")
CONVERT = Hint("counted-already", "convert {way}")
CONVERT_MEAN = Hint("length-unknown", "convert {way} --mean-tokens N")
CONVERT_FILE = Hint("other-framework", "convert --to prime-rl FILE")
CONVERT_RELEASE = Hint("earlier-release", "convert --to {to} {files}")
UNDO_FILE = Hint("converted", "undo {file}")
PROMOTE = Hint("own-copy", "promote {name}")
PROMOTE_PLAN = Hint("nothing-promoted", "promote {run} --plan")
PROMOTE_UNDO = Hint("promoted", "promote {run} --undo")
SET_REPORT = Hint("no-login", "set trainer.args.report_to=none")
EVENTS_ADD = Hint("read-only", "events add [{name}] TEXT")

# --- evaluations and checkpoints ----------------------------------------------------------------------------

EVAL = Hint("no-evaluation", "eval run")
EVAL_BASE = Hint("no-evaluation", "eval run [{name}] --base")
EVAL_NOW = Hint("no-weights", "eval run [{name}] --now")
EVAL_CHECKPOINT = Hint("no-weights-of-now", "eval run [{name}] --from last")
EVAL_MODEL = Hint("no-weights", "eval run --model {model}")
EVAL_ENV = Hint("no-environment", "eval run ENV [--model {model}]")
EVAL_NEVER = Hint("standing-order", "eval run [{name}] --every 0")
EVALS = Hint("queued-evaluation", "eval list [{name}]")
EVALS_CANCEL = Hint("evaluation-goes-on", "eval cancel [{name}] {id}")
PRUNE = Hint("disk-full", "checkpoints prune [{name}]")
RESTORE_ASIDE = Hint("set-aside", "checkpoints restore {name} {stamp}")
GO_FORWARD = Hint("went-back", "checkpoints restore {name} --set-aside")
PRUNE_ASIDE = Hint("disk-full", "checkpoints prune --set-aside --keep-every 1 [{name}]")

# --- all runs -----------------------------------------------------------------------------------------------

RUNS = Hint("unknown-run", "runs")
RUNS_ALL = Hint("archived", "runs --all")
RUNS_REBUILD = Hint("index-damaged", "runs --rebuild")
ADD = Hint("nothing-there", "runs add FOLDER")
TAG = Hint("no-tags", "runs tag RUN +baseline")
TAG_REMOVE = Hint("no-tags", "runs tag RUN --remove baseline")
PUBLISH = Hint("adapters-alone", "checkpoints upload STEP USER/NAME")
RM = Hint("not-in-the-trash", "runs rm {run}")
RESTORE = Hint("in-the-trash", "runs restore {run}")
TRASH_EMPTY = Hint("in-the-trash", "runs trash --empty")
FORK = Hint("parent-gone", "fork {run}")
FORK_INTO = Hint("other-folder", "fork {run} -o FOLDER")
RERUN = Hint("folder-gone", "rerun {run}")
EXPORT_ON_HOST = Hint("run-on-host", "--host {host} runs export {run}")

# --- queue --------------------------------------------------------------------------------------------------

QUEUE = Hint("queue-not-kept", "queue")
QUEUE_ADD = Hint("queue-empty", "queue add CONFIG.toml")
QUEUE_RETRY = Hint("entry-changed", "queue retry {entry}")
QUEUE_RESUME = Hint("queue-paused", "queue resume")
QUEUE_LIMIT = Hint("queue-limited", "queue limit NUMBER|none")
BENCH = Hint("no-bench", "bench CONFIG.toml lr=1e-6,3e-6 --metric reward --budget '20 trials'")
BENCH_SHOW = Hint("bench-under-way", "bench show {name}")
BENCH_TRY = Hint("bench-idle", "bench try {name} KEY=VALUE")
BENCH_PROMOTE = Hint("bench-has-a-winner", "promote {run}")
SWEEP = Hint("queue-empty", "sweep CONFIG.toml lr=1e-6,3e-6 seed=0..2")

# --- agents -------------------------------------------------------------------------------------------------

PROPOSALS = Hint("waits-for-a-person", "agents proposals")
WAIT_PROPOSAL = Hint("proposed", "wait {name} --until proposal:{id}")
AGENTS = Hint("refused-to-an-agent", "agents")
AGENTS_RESUME = Hint("agents-paused", "agents resume")
ACCEPT_ENTRY = Hint("entry-waits-for-a-person", "agents accept {entry}")

# --- Kubernetes ---------------------------------------------------------------------------------------------

K8S_STATUS = Hint("unknown-release", "k8s status")
K8S_UP = Hint("unknown-release", "k8s up {release}")
K8S_UPGRADE = Hint("release-there", "k8s upgrade {release}")
K8S_WATCH = Hint("release-there", "k8s watch {release}")


def edit_words(edits: Mapping[str, str | None]) -> list[str]:
    """Arguments of `rltui set`. `edits`: knob → value, `None` to remove it."""
    return [
        argument
        for key, value in edits.items()
        for argument in (("--unset", key) if value is None else (f"{key}={value}",))
    ]


def back_command(step: int, edit: str, edits: Mapping[str, str | None], *, name: str | None) -> str:
    """The command that accepts a `RollbackOffer`."""
    if edits:
        return SET_AND_GO_BACK(words=edit_words(edits), step=step, name=name)
    return (UNDO_AND_GO_BACK if edit else GO_BACK)(step=step, name=name)


def way_back(step: int, edit: str, edits: Mapping[str, str | None], *, name: str | None) -> str:
    """`back to checkpoint 40, without lr 1 → 2: rltui undo --restart --from 40`, for a `RollbackOffer`."""
    command = back_command(step, edit, edits, name=name)
    return f"back to checkpoint {step}{f', without {edit}' if edit else ''}: {command}"
