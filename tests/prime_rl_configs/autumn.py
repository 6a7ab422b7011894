"""Makes the schema of autumn 2026 out of that of 21 August and what is known of the changes since.

    python -m tests.prime_rl_configs.autumn

No commit of that time could be had: each change was read in a single file, so the result is marked as
partial. With a checkout of that time, `snapshot.py` replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.prime_rl_configs.snapshot import FOLDER, write

Json = dict[str, Any]
BASE, DAY = "2026-08-21", "2026-11-01"
ANY_TABLE: Json = {"type": "object", "additionalProperties": True, "default": {}}
SOURCES: Json = {"anyOf": [{"type": "array", "items": ANY_TABLE}, {"type": "null"}], "default": None}
FLAG: Json = {"type": "boolean", "default": False}
LOSSES: Mapping[str, Mapping[str, float]] = {
    "ipo": {"eps": 0.3, "max_importance_ratio": 1e4},
    "icepop": {"ratio_low": 0.2, "ratio_high": 5.0},
    "ppo": {"ratio_low": 0.8, "ratio_high": 1.2},
    "cispo": {"ratio_low": 0.0, "ratio_high": 5.0},
}
CHECKPOINTING = ["full", "full_moe", "projections", "attention", "matmul", "selective"]


def whole(default: int | None, **bounds: int) -> Json:
    """A whole number; one without a default may be absent."""
    number: Json = {"type": "integer", **bounds}
    if default is None:
        return {"anyOf": [number, {"type": "null"}], "default": None}
    return {**number, "default": default}


def table(**properties: Json) -> Json:
    """A table that refuses other keys."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def one_of(default: str, **members: str) -> Json:
    """A union that `type` tells apart: tag → name of its definition."""
    where = {tag: f"#/$defs/{name}" for tag, name in members.items()}
    return {
        "default": {"type": default},
        "discriminator": {"propertyName": "type", "mapping": where},
        "oneOf": [{"$ref": reference} for reference in where.values()],
    }


def tagged(tag: str, **properties: Json) -> Json:
    """A member of such a union."""
    return table(type={"const": tag, "type": "string", "default": tag}, **properties)


def main() -> None:
    """Write the schema."""
    document = json.loads((FOLDER / f"{BASE}.json").read_text())
    for schema in document["roles"].values():
        change(schema)
        for properties in (schema["properties"], *(table["properties"] for table in tables(schema))):
            follow_the_fields(properties)
    write(DAY, "", document["roles"], partial=True)


def tables(schema: Json) -> Iterator[Json]:
    """Definitions of tables."""
    yield from (table for table in schema["$defs"].values() if "properties" in table)


def follow_the_fields(properties: Json) -> None:
    """Defaults of whole tables would still hold those of before."""
    for table in properties.values():
        if "$ref" in table and isinstance(table.get("default"), dict):
            table["default"] = {}


def change(schema: Json) -> None:
    """All that is known, in one schema."""
    definitions = schema["$defs"]

    def keys(name: str) -> Json:
        """Of a definition, to be changed; of one that is not in this schema, nothing that is kept."""
        properties: Json = definitions.get(name, {}).get("properties", {})
        return properties

    definitions["SelectConfig"] = table(
        include={**ANY_TABLE, "default": None}, exclude={**ANY_TABLE, "default": None}, shuffle=FLAG,
        seed=whole(0), skip=whole(0, minimum=0), limit=whole(None, minimum=1),
    )  # fmt: skip
    select = {"$ref": "#/$defs/SelectConfig", "default": {}}
    if "OrchestratorConfig" in definitions:
        of_orchestrator(definitions, select)
    for name in ("EvalConfig", "EvalsEvalConfig", "EvalSourceConfig"):
        keys(name).pop("num_examples", None)
        keys(name).update(select=select)
    for name in ("EvalConfig", "EvalsEvalConfig"):
        keys(name).update(env=ANY_TABLE)
    keys("EvalSourceConfig").update(interval=whole(None, minimum=1))
    keys("EvalsEvalConfig").update(
        cancel_on_new_checkpoint={**FLAG, "default": True},
        tasks_per_minute=whole(None, minimum=1), heartbeat={**ANY_TABLE, "default": None},
    )  # fmt: skip
    keys("EvalsEvalConfig").pop("env_server_base_port", None)
    keys("SFTDataConfig").update(columns=ANY_TABLE, source=SOURCES)
    keys("ClientConfig").update(wait_for_ready_timeout=whole(3600))
    keys("HeartbeatConfig").update(min_interval={"type": "number", "default": 30.0})
    keys("GCConfig").update(interval=whole(50))
    for name in ("SGDConfig", "AdamWConfig", "MuonConfig", "SignSGDConfig"):
        decay = [{"type": "number", "minimum": 0}, {"const": "auto", "type": "string"}]
        keys(name).update(weight_decay={"anyOf": decay, "default": "auto"})
    for trainer in (keys("TrainerConfig"), schema["properties"]):
        trainer.pop("enable_token_export", None)
        if "optim" in trainer:
            trainer["optim"]["default"] = {"type": "adamw"}
    if "TrainerConfig" in definitions:
        of_loss(definitions)
    keys("prime_rl__configs__trainer__ModelConfig").pop("ep_comm_backend", None)
    keys("prime_rl__configs__trainer__ModelConfig").update(
        moe=ANY_TABLE, pp=whole(1, minimum=1), pp_schedule={"type": "string", "default": "1F1B"},
        fusions=ANY_TABLE,
    )  # fmt: skip
    keys("ActivationCheckpointConfig").update(
        mode={"enum": CHECKPOINTING, "type": "string", "default": "full"},
        layer_modes={**ANY_TABLE, "default": None},
    )
    keys("VllmConfig").update(max_loras=whole(1), enable_ep_weight_filter={**FLAG, "default": True})
    keys("VllmRouterConfig").update(
        policy={"type": "string", "default": "sticky_least_loaded"}, request_timeout_secs=whole(14400)
    )
    keys("InferenceConfig").update(enable_return_sampling_mask=FLAG)
    keys("FileMonitorConfig").update(
        chunk_bytes=whole(5 << 30), compress={**FLAG, "default": True}, float_decimals=whole(4)
    )
    for name in definitions:
        if "NIXLWeightBroadcast" in name:
            keys(name).update(overlap_transfer_and_replay=FLAG)
    keys("SlurmConfig").update(max_requeues=whole(3), step_timeout=whole(7200), launch_modelexpress=FLAG)
    schema["properties"]["dashboard"] = {**FLAG, "default": True}


def of_orchestrator(definitions: Json, select: Json) -> None:
    """Groups of sources with defaults for each, and no batches of tokens any more."""
    top, train, source = (
        definitions[name]["properties"] for name in ("OrchestratorConfig", "TrainConfig", "TrainSourceConfig")
    )
    algo = top.pop("algo")
    for key in ("token_batch_size", "group_size", "env_server_base_port"):
        top.pop(key)
    names = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None}
    top.update(
        batch_size=whole(128, minimum=1), constant_trainer_batch_size={**FLAG, "default": True},
        inference_metrics_roles=names,
    )  # fmt: skip
    train.pop("filter_zero_advantages")
    train.update(group_size=whole(1, minimum=1), algo=algo, select=select, env=ANY_TABLE)
    source.pop("curriculum", None)
    pools = tagged("difficulty_pool", seed=whole(42), pools=ANY_TABLE)
    definitions |= {"StandardSampler": tagged("standard"), "DifficultyPoolSampler": pools}
    own = {key: value for key, value in algo.items() if key != "default"}
    source.update(
        min_abs_advantage={"type": "number", "minimum": 0, "default": 0.0}, select=select,
        group_size=whole(None, minimum=1), algo={"anyOf": [own, {"type": "null"}], "default": None},
        sampler=one_of("standard", standard="StandardSampler", difficulty_pool="DifficultyPoolSampler"),
    )  # fmt: skip
    definitions["TrainSamplingConfig"]["properties"].update(
        top_p={"type": "number", "default": 1.0, "exclusiveMinimum": 0, "maximum": 1},
        top_k=whole(None, minimum=1),
    )


def of_loss(definitions: Json) -> None:
    """Four losses in the place of two."""
    weight = {"type": "number", "default": 1.0, "minimum": 0}
    members = {}
    for tag, figures in LOSSES.items():
        members[tag] = f"{tag.capitalize()}Loss"
        numbers = {key: {"type": "number", "default": value} for key, value in figures.items()}
        definitions[members[tag]] = tagged(tag, **numbers, adv_tau=weight)
    loss = one_of("ipo", **members, custom="CustomLossConfig")
    definitions["TrainerConfig"]["properties"]["loss"] = loss


if __name__ == "__main__":
    main()
