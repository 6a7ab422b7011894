"""Keys of config files as tables of names, and those tables that several programs share.

A name with `*` holds whatever others understand; a table with `?` drops keys that it does not know.
The names are those of the pydantic models between December 2025 and May 2026, and are the union of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltui.frameworks.grammar import Grammar

KeyTables = Mapping[str, str]
"""Dotted name of a table, `[]` after arrays of tables → the names in it."""

LORA = "rank alpha dropout target_modules modules_to_save"
TOKENIZER = "name trust_remote_code chat_template"
WEIGHT_CKPT = "save_sharded save_format save_adapter_separately"
LOG_EXTRAS = "samples distributions interval sample_ratio"
SAMPLING = "temperature repetition_penalty max_tokens max_completion_tokens min_tokens seed extra_body*"
EVAL_SAMPLING = f"{SAMPLING} top_p top_k min_p reasoning_effort"
SFT_DATA: KeyTables = {
    "?": "batch_size seq_len pack_function micro_batch_size type length input_ids name subsets splits "
    "probabilities stopping_strategy shuffle seed",
    "loss_mask": "system user assistant tool",
}
OPTIM = "lr weight_decay max_norm type nesterov momentum betas1 betas2"
SCHEDULER = "type warmup_steps decay_steps min_lr"


def under(prefix: str, tables: KeyTables) -> KeyTables:
    """The same tables below another one; those without a name become `prefix`."""
    marks = {"": "", "?": "?"}
    return {prefix + marks.get(name, f".{name}"): keys for name, keys in tables.items()}


def grammar(
    what: str,
    tables: KeyTables,
    *,
    namespace: str = "",
    renamed: Mapping[str, str],
    dated: Mapping[str, str] | None = None,
    as_of: str = "",
) -> Grammar:
    """The grammar of a file that has these tables."""
    known: list[str] = []
    free: list[str] = []
    names = {table.rstrip("?"): keys.split() for table, keys in tables.items()}
    for table, keys in names.items():
        for key in keys:
            whole = f"{table}.{key}" if table else key
            (free if key.endswith("*") else known).append(whole.rstrip("*"))
    return Grammar(
        what,
        known=dict.fromkeys(known),
        namespace=namespace,
        free=dict.fromkeys(free),
        tables=tuple(name for name in names if name),
        unread=tuple(table.rstrip("?") for table in tables if table.endswith("?")),
        renamed=renamed,
        dated=dated or {},
        as_of=as_of,
    )
