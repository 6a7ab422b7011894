"""The config screen, the knob editor with what it proposes, and the dialogs before a file is written."""

from __future__ import annotations

from tests.ui.config_cases import COLLECT, config_experiment, conflicting, own_copy_experiment
from tests.ui.scenes.scene import Scene, on, scene

CONFIG = on(config_experiment)
PROBLEM = "⚠ rl.toml:4 orchestrator.batch_size 64 / orchestrator.group_size"
COLLECTED = "· 1 edit collected: W reviews and writes"
CONSEQUENCES = (
    "-batch_size = old",
    "+batch_size = 128",
    "prompts per step 4 → 8  64 rollouts / 16 per prompt",
    "stop       trainer → orchestrator",
)

SCENES: dict[str, Scene] = {
    "config": scene(
        CONFIG, ("6",), "reverse-text · Config · 1 change needs a restart: A · rl.toml", "128 → 64",
        "default 20 · 1 or more · read by orchestrator and trainer",
        "prompts per step 4 · tokens per step 131,072 · rollouts in flight 128", PROBLEM, "A apply", small=(),
    ),
    "config-collected": scene(
        CONFIG, (*COLLECT, "6"), "+ 1 collected: W writes", "⚠ batch_size", "64 ⇒ 128", "W write", COLLECTED,
        "tokens per step 131,072  64 rollouts × 2048 tokens", PROBLEM, "Rollouts per prompt.",
        "not in the knob table",
        huge=("16 = 4 prompts: the reward will be noisy", "  you mean trainer.optim.lr?"),
    ),
    "config-cursor": scene(
        CONFIG, (*COLLECT, "6", "j", "j"), "64 ⇒ 128", "─orchestrator.sampling.temperature─",
        "not in the file · default 1 · 0 to 2 · read by orchestrator",
        "· rl.toml:17 trainer.optim.lrr is no key that prime-rl knows: did you mean trainer.optim.lr?",
        middle=(),
    ),
    "config-search": scene(
        CONFIG, ("6", "slash", *"lr"), "optim.lr ", "· optim.lrr", "default 1e-5 · 0 to 1 · read by trainer",
        "/ lr", "2 keys", small=(),
    ),
    "editor-fraction": scene(
        CONFIG, ("ctrl+k", *"j" * 12, "enter", "right"),
        "✓ budget 71.9 of 141 GiB on GPU 0 · leaves the trainer 69.1 GiB · trainer peak", "┊ safe up to 0.71",
        "+gpu_memory_utilization = 0.51", "memory     leaves the trainer 69.1 GiB, it held up to 40.0",
        middle=(),
    ),
    "editor-fraction-too-much": scene(
        CONFIG, ("ctrl+k", *"j" * 12, "enter", *["up"] * 6), "│  0.8",
        "✗ budget 113 of 141 GiB on GPU 0 · leaves the trainer 28.2 GiB", "┊ safe up to 0.71",
        "⚠ leaves the trainer 28.2 GiB, it held up to 40.0", small=(),
    ),
    "editor-list": scene(
        CONFIG, ("ctrl+k", *"j" * 11, "enter", "down", "shift+up", "end", *"_x"), "2 q_proj", "3 v_proj",
        "↑↓ item · ctrl+k removes · shift+↑↓ moves · ctrl+x: default",
        "+target_modules = ['k_proj_x', 'q_proj', 'v_proj']", middle=(),
    ),
    "editor-int": scene(
        CONFIG, ("ctrl+k", "enter", "asterisk"), "│  128", "↑↓ step · * / ×2 ÷2 · ctrl+x: default",
        "+batch_size = 128", "keep       inference (not touched)", small=(),
    ),
    "review": scene(CONFIG, (*COLLECT, "W"), "Write 1 edit?", *CONSEQUENCES, COLLECTED, small=(), middle=()),
    "apply": scene(
        CONFIG, (*COLLECT, "A"), "Write 1 edit and restart its readers?", *CONSEQUENCES,
        "lose       2 steps · resumes after step 10", "enter: Cancel · y: Write + restart", middle=(),
    ),
    "overview-collected": scene(
        CONFIG, COLLECT, "▸ orchestrator.batch_size", "64 ⇒ 128", "+ 1 collected: W writes", COLLECTED,
        "W write", "u undo", wide=(),
    ),
    "conflict": scene(
        on(conflicting), (*COLLECT, "W"), "The file has changed on disk",
        "rl.toml: changed on both sides", "you saw 64  now 96  yours 128", "+batch_size = 96",
        "▸ Cancel     Write mine     Take theirs", small=(), middle=(),
    ),
    "converter": scene(
        CONFIG, ("6", "colon", *"convert", "enter", *"211.5"), "Count the batch in tokens",
        "token_batch_size = 128 rollouts × 211.5",
        "orchestrator.token_batch_size = 27072", "orchestrator.batch_size removed",
        "enter: review · esc: cancel", middle=(),
    ),
    "pending": scene(
        CONFIG, ("6", "d"), "Differences", "running → file, and its readers:",
        "orchestrator.batch_size 128 → 64  orchestrator", "lose       2 steps · resumes after step 10",
        middle=(),
    ),
    "pending-own-copy": scene(
        on(own_copy_experiment), ("6", "d"), "Differences",
        "+name = \"outputs/weights/step_100\"",
        "original → this run's copy, which edits change:", small=(),
    ),
}  # fmt: skip
