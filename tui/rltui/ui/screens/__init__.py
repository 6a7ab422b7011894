"""The screens on top of the overview: a line each, loaded when it is first opened.

A key for one is in `SCREEN_KEYS` of `rltui.ui.base_screen`: `show_screen('name')`. Its styles lie beside it.
"""

SCREENS = {
    "runs": "rltui.ui.screens.runs:RunsScreen",
    "queue": "rltui.ui.screens.queue:QueueScreen",
    "bench": "rltui.ui.screens.bench:BenchScreen",
    "logs": "rltui.ui.screens.logs:LogScreen",
    "gpus": "rltui.ui.screens.gpus:GpuScreen",
    "checkpoints": "rltui.ui.screens.checkpoints:CheckpointScreen",
    "evals": "rltui.ui.screens.evals:EvalScreen",
    "metrics": "rltui.ui.screens.metrics:MetricsScreen",
    "events": "rltui.ui.screens.events:EventScreen",
    "rollouts": "rltui.ui.screens.rollouts:RolloutScreen",
    "config": "rltui.ui.screens.config:ConfigScreen",
}
