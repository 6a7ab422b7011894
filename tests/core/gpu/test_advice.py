from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.base.text import GIB
from rltui.core.config.report import KnobInfo
from rltui.core.gpu.advice import MOST_ADVISED, MemoryFailure, advise
from rltui.core.gpu.report import OutOfMemory, Remedy
from rltui.frameworks import roles
from rltui.frameworks.memory_levers import LEVERS
from rltui.views.gpu.advice import remedy

TORCH = OutOfMemory(
    kind="allocation",
    tried_bytes=2 * GIB,
    free_bytes=300 << 20,
    total_bytes=80 * GIB,
    in_use_bytes=70 * GIB,
)
START_CHECK = OutOfMemory(
    kind="start_check", free_bytes=60 * GIB, total_bytes=80 * GIB, utilization=0.9, needed_bytes=72 * GIB
)
NO_KV = OutOfMemory(kind="no_kv_cache")
KV_SMALL = OutOfMemory(
    kind="kv_cache_small", needed_bytes=4 * GIB, available_bytes=GIB, possible_model_len=9808
)


def knob(key: str, value: object, *readers: str, kind: str = "int", **more: object) -> KnobInfo:
    values = {"key": key, "file": "rl.toml", "value": value, "readers": readers, "kind": kind, "is_set": True}
    return KnobInfo.from_plain(values | more)


def switch(key: str, value: bool, *readers: str) -> KnobInfo:
    return knob(key, value, *readers, kind="bool", is_set=value)


def share(value: float, reader: str = "inference") -> KnobInfo:
    return knob("inference.gpu_memory_utilization", value, reader, kind="float", bounds=(0.0, 1.0))


MERGED = (
    knob("seq_len", None, "orchestrator", "trainer", is_set=False, nullable=True),
    knob("orchestrator.seq_len", 2048, "orchestrator", is_set=False),
    knob("trainer.model.seq_len", 4096, "trainer"),
    knob("trainer.model.ac.freq", None, "trainer", nullable=True, is_set=False),
    switch("trainer.model.optim_cpu_offload", False, "trainer"),
    switch("trainer.model.fsdp_cpu_offload", False, "trainer"),
    knob("trainer.model.lora.rank", None, "trainer", nullable=True, is_set=False),
    knob("orchestrator.model.lora.rank", None, "orchestrator", nullable=True, is_set=False),
    share(0.9),
    knob("inference.model.max_model_len", 16384, "inference"),
    knob("inference.max_num_seqs", 256, "inference"),
    switch("inference.model.enforce_eager", False, "inference"),
)


def advice(memory: OutOfMemory, *knobs: KnobInfo, component: str, **facts: object) -> tuple[Remedy, ...]:
    case = MemoryFailure(memory, knobs, component, tables=roles.TABLES, **facts)  # type: ignore[arg-type]
    return tuple(remedy(case, advice) for advice in advise(case, LEVERS))


def edits(advised_: tuple[Remedy, ...]) -> list[dict[str, object]]:
    return [dict(remedy.edits) for remedy in advised_]


def test_a_trainer_is_given_shorter_sequences_then_checkpointing_then_offload() -> None:
    advised_ = advice(TORCH, *MERGED, component="trainer")
    assert edits(advised_) == [
        {"trainer.model.seq_len": 2048},
        {"trainer.model.ac.freq": 1},
        {"trainer.model.optim_cpu_offload": True},
        {"trainer.model.fsdp_cpu_offload": True},
    ]
    assert advised_[0].title == "trainer.model.seq_len 4096 → 2048"
    assert (
        "tried to allocate 2.0 GiB, 0.3 GiB of 80.0 GiB free; this process held 70.0 GiB"
        in advised_[0].reason
    )
    assert advised_[1].title == "trainer.model.ac.freq unset → 1"
    assert not advised_[0].components, "it reads that knob, and restarts for it"


def test_adapters_are_advised_once_the_rest_is_used_up() -> None:
    rank = MERGED[6]
    on = switch("trainer.model.optim_cpu_offload", True, "trainer")
    (advised_,) = advice(TORCH, on, rank, component="trainer")
    assert advised_.edits == {"trainer.model.lora.rank": 16}
    assert "adapters" in advised_.reason
    assert advice(TORCH, MERGED[7], component="trainer") == (), "not a table of the orchestrator"


def test_what_excludes_another_switch_is_not_advised_beside_it() -> None:
    on = switch("trainer.model.optim_cpu_offload", True, "trainer")
    advised_ = advice(
        TORCH, on, switch("trainer.model.fsdp_cpu_offload", False, "trainer"), component="trainer"
    )
    assert advised_ == ()


def test_a_trainer_on_a_shared_gpu_is_first_given_more_of_it() -> None:
    facts = {"shares_with": ("inference",), "safe_utilization": 0.55, "peak_bytes": 30 * GIB}
    first, second, *_ = advice(TORCH, *MERGED, component="trainer", **facts)
    assert first.edits == {"inference.gpu_memory_utilization": 0.55}
    assert first.components == ("inference", "trainer"), "it does not read that knob, and shall start again"
    assert "leaves more of the GPU for trainer, which used up to 30.0 GiB" in first.reason
    assert second.edits == {"trainer.model.seq_len": 2048}


def test_without_a_safe_share_the_engine_gives_what_was_missing() -> None:
    first, *_ = advice(TORCH, *MERGED, component="trainer", shares_with=("inference",))
    assert first.edits == {"inference.gpu_memory_utilization": 0.85}
    large = TORCH.replace(tried_bytes=12 * GIB)
    first, *_ = advice(large, *MERGED, component="trainer", shares_with=("inference",))
    assert first.edits == {"inference.gpu_memory_utilization": 0.75}


def test_sft_micro_batch_goes_before_the_length() -> None:
    knobs = (
        knob("sft.data.batch_size", 60, "sft"),
        knob("sft.data.micro_batch_size", 15, "sft"),
        knob("sft.data.seq_len", 4096, "sft"),
        knob("trainer.model.seq_len", 4096, "trainer"),
        knob("seq_len", 4096, "orchestrator", "trainer"),
    )
    assert edits(advice(TORCH, *knobs, component="sft")) == [
        {"sft.data.micro_batch_size": 6},
        {"sft.data.seq_len": 2048},
    ], "60 is a multiple of 6, not of 7"


def test_trainer_of_a_config_for_sft_alone_gets_its_advice() -> None:
    names = ("data.batch_size", "data.micro_batch_size", "data.seq_len", "model.seq_len")
    knobs = [knob(f"sft.{name}", 4096, "trainer") for name in names]
    found = edits(advice(TORCH, *knobs, component="trainer"))
    assert found == [{"sft.data.micro_batch_size": 2048}, {"sft.data.seq_len": 2048}]


def test_vf_rl() -> None:
    both = ("inference", "trainer")
    knobs = (
        knob("inference.args.gpu_memory_utilization", 0.9, *both, kind="float"),
        knob("trainer.args.batch_size", 512, *both),
        knob("trainer.args.micro_batch_size", 16, *both),
        knob("trainer.args.max_seq_len", 2048, *both),
        switch("trainer.args.gradient_checkpointing", False, *both),
    )
    assert edits(advice(TORCH, *knobs, component="trainer")) == [
        {"trainer.args.micro_batch_size": 8},
        {"trainer.args.max_seq_len": 1024},
        {"trainer.args.gradient_checkpointing": True},
    ]
    assert edits(advice(TORCH, *knobs, component="inference")) == [
        {"inference.args.gpu_memory_utilization": 0.85}
    ]


def test_where_only_the_orchestrator_has_a_length_the_trainer_starts_again_with_it() -> None:
    (only,) = advice(TORCH, knob("orch.seq_len", 2048, "orchestrator"), component="trainer")
    assert (only.edits, only.components) == ({"orch.seq_len": 1024}, ("orchestrator", "trainer"))


LENGTHS = {
    "shared": ((4096, True), (4096, False), (4096, False), {"seq_len": 2048}),
    "none-written": (
        (2048, False),
        (2048, False),
        (2048, False),
        {"seq_len": 1024},
    ),
    "own-and-orchestrator": (
        (None, False),
        (4096, True),
        (4096, True),
        {"trainer.model.seq_len": 2048, "orchestrator.seq_len": 2048},
    ),
    "own-before-the-orchestrators-default": (
        (None, False),
        (2048, False),
        (3000, True),
        {"trainer.model.seq_len": 1500, "orchestrator.seq_len": 1500},
    ),
    "shared-and-same": (
        (4096, True),
        (4096, True),
        (4096, True),
        {"seq_len": 2048, "orchestrator.seq_len": 2048, "trainer.model.seq_len": 2048},
    ),
    "orchestrator-short": ((4096, True), (512, True), (4096, False), {"seq_len": 2048}),
    "orchestrator-only": (
        (None, False),
        (512, True),
        (2048, False),
        {"trainer.model.seq_len": 1024},
    ),
}


@pytest.mark.parametrize(("shared", "rollout", "packed", "expected"), LENGTHS.values(), ids=LENGTHS)
def test_lengths_are_changed_where_they_are_written(
    shared: tuple[int | None, bool],
    rollout: tuple[int, bool],
    packed: tuple[int, bool],
    expected: dict[str, int],
) -> None:
    knobs = (
        knob("seq_len", shared[0], "orchestrator", "trainer", is_set=shared[1]),
        knob("orchestrator.seq_len", rollout[0], "orchestrator", is_set=rollout[1]),
        knob("trainer.model.seq_len", packed[0], "trainer", is_set=packed[1]),
    )
    (only,) = advice(TORCH, *knobs, component="trainer")
    assert only.edits == expected


def test_the_start_check_is_answered_with_the_share_that_passes() -> None:
    (only,) = advice(START_CHECK, *MERGED, component="inference")
    assert only.edits == {"inference.gpu_memory_utilization": 0.74}
    assert only.title == "inference.gpu_memory_utilization 0.9 → 0.74"
    assert "gpu_memory_utilization 0.9 asks for 72.0 GiB" in only.reason
    (only,) = advice(START_CHECK, *MERGED, component="inference", safe_utilization=0.6)
    assert only.edits == {"inference.gpu_memory_utilization": 0.6}
    (only,) = advice(START_CHECK, *MERGED, component="inference", largest_passing=0.5)
    assert only.edits == {"inference.gpu_memory_utilization": 0.5}
    assert advice(START_CHECK, share(0.7), component="inference") == (), "lowered already"
    full = START_CHECK.replace(free_bytes=GIB)
    assert advice(full, share(0.9), component="inference") == (), "no share is small enough"


def test_too_small_a_cache_is_answered_with_the_length_that_fits_then_with_more_of_the_gpu() -> None:
    advised_ = advice(KV_SMALL, *MERGED, component="inference")
    assert edits(advised_) == [
        {"inference.model.max_model_len": 9808},
        {"inference.gpu_memory_utilization": 0.95},
    ]
    unset = knob("inference.model.max_model_len", None, "inference", nullable=True, is_set=False)
    assert edits(advice(KV_SMALL, unset, component="vllm")) == [], "vllm does not read it"
    assert edits(advice(KV_SMALL, unset, component="inference")) == [{"inference.model.max_model_len": 9808}]


def test_no_cache_at_all_is_answered_with_more_of_the_gpu_as_far_as_there_is_more() -> None:
    assert edits(advice(NO_KV, *MERGED, component="inference"))[0] == {
        "inference.gpu_memory_utilization": 0.95
    }
    beside = advice(NO_KV, *MERGED, component="inference", largest_passing=0.93, safe_utilization=0.92)
    assert edits(beside)[0] == {"inference.gpu_memory_utilization": 0.92}
    full = advice(NO_KV, *MERGED, component="inference", safe_utilization=0.9)
    assert edits(full) == [{"inference.model.max_model_len": 8192}], "more would be the trainer's"


def test_an_engines_warm_up_and_graphs() -> None:
    warm_up = OutOfMemory(kind="warm_up", requests=256)
    assert edits(advice(warm_up, *MERGED, component="inference"))[:2] == [
        {"inference.max_num_seqs": 128},
        {"inference.gpu_memory_utilization": 0.85},
    ]
    graphs = OutOfMemory(kind="graph_capture")
    assert edits(advice(graphs, *MERGED, component="inference"))[:2] == [
        {"inference.gpu_memory_utilization": 0.85},
        {"inference.model.enforce_eager": True},
    ]
    assert advice(OutOfMemory(kind="load"), *MERGED, component="inference") == (), "weights do not shrink"


def test_a_component_of_unknown_kind_is_helped_by_whatever_it_reads() -> None:
    knobs = (knob("trainer.model.seq_len", 64, "launcher"), share(0.5, "launcher"))
    assert edits(advice(TORCH, *knobs, component="launcher")) == [
        {"trainer.model.seq_len": 32},
        {"inference.gpu_memory_utilization": 0.45},
    ]


KEYS = tuple(item.key for item in MERGED)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-4, 1 << 20), st.floats(0, 1), st.just("x"))
TABLES = st.lists(
    st.builds(
        lambda item, value, is_set: item.replace(value=value, is_set=is_set),
        st.sampled_from(MERGED),
        VALUES,
        st.booleans(),
    ),
    unique_by=lambda item: item.key,
)
MEMORIES = st.sampled_from(
    [
        TORCH,
        START_CHECK,
        NO_KV,
        KV_SMALL,
        *(OutOfMemory(kind=kind) for kind in ("load", "warm_up", "graph_capture", "other", "start_check")),
    ]
)
SHARES = st.one_of(st.none(), st.floats(0.01, 1).map(lambda value: round(value, 2)))


@given(
    TABLES,
    MEMORIES,
    st.sampled_from(["trainer", "inference", "sft", "launcher"]),
    st.booleans(),
    SHARES,
    SHARES,
)
def test_every_remedy_is_a_change_that_its_knobs_take(
    knobs: list[KnobInfo],
    memory: OutOfMemory,
    component: str,
    shared: bool,
    safe: float | None,
    passing: float | None,
) -> None:
    facts = {
        "shares_with": ("inference",) if shared else (),
        "safe_utilization": safe,
        "largest_passing": passing,
    }
    advised_ = advice(memory, *knobs, component=component, **facts)
    by_key = {item.key: item for item in knobs}
    keys = [key for remedy in advised_ for key in remedy.edits]
    assert len(advised_) <= MOST_ADVISED
    assert len(keys) == len(set(keys))
    for advised in advised_:
        assert advised.edits
        for key, value in advised.edits.items():
            item = by_key[key]
            assert value != item.value
            low, high = item.bounds
            if isinstance(value, bool):
                assert item.kind == "bool"
            else:
                assert isinstance(value, int | float)
                assert value > 0
                assert low is None or value >= low
                assert high is None or value <= high
