from __future__ import annotations

import pytest

from rltui.core.experiment.servers import (
    Answer,
    ServerAddress,
    judge_server,
    server_ids,
    server_url,
    server_warnings,
)
from rltui.errors import UsageError

HERE = ServerAddress("http://localhost:8000/v1", key_variable="VLLM_API_KEY", model="tiny")


def test_an_address_is_made_of_what_a_person_writes() -> None:
    assert server_url("http://gpu-2:8000") == "http://gpu-2:8000/v1"
    assert server_url(" https://gpu-2/llm/v1/ ") == "https://gpu-2/llm/v1"
    assert server_url("http://[::1]:8000/v1") == "http://[::1]:8000/v1"
    for text in ("gpu-2:8000", "ftp://gpu-2", "http://", "http://gpu-2:port", "http://gpu-2:0", ""):
        with pytest.raises(UsageError, match="not the URL of an inference server"):
            server_url(text)
    for text in ("http://me:hush@gpu-2/v1", "https://gpu-2/v1?api_key=hush", "https://gpu-2/v1#hush"):
        with pytest.raises(UsageError) as caught:
            server_url(text)
        assert "hush" not in str(caught.value)
        assert "api_key_var" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "key_is_set", "state", "words"),
    [
        (Answer(("tiny", "other")), False, "ready", None),
        (Answer(), False, "ready", None),
        (Answer(("large",)), True, "refused", "the server has large, but the config asks for tiny"),
        (Answer(fault="Connection refused"), True, "down", "Connection refused"),
        (Answer(status=503, fault="status 503"), True, "down", "status 503"),
        (Answer(status=404, fault="status 404"), True, "refused", "no OpenAI API at"),
        (Answer(status=401, fault="status 401"), False, "refused", "set VLLM_API_KEY in the shell"),
        (Answer(status=403, fault="status 403"), True, "refused", "the key in VLLM_API_KEY"),
    ],
)  # fmt: skip
def test_a_server_is_judged_by_what_it_says(
    answer: Answer, key_is_set: bool, state: str, words: str | None
) -> None:
    verdict, reason = judge_server(HERE, answer, key_is_set=key_is_set)
    assert verdict == state
    assert (reason is None) if words is None else words in str(reason)


def test_what_a_ready_server_may_lack_is_told() -> None:
    assert server_warnings(HERE, Answer(updates_weights=True), "vLLM") == ()
    assert "no /update_weights" in server_warnings(HERE, Answer(updates_weights=False), "vLLM")[0]
    there = ServerAddress("https://gpu-2/v1", admin_url="http://gpu-2:8100/v1")
    assert there.root == "http://gpu-2:8100"
    assert "must see the output folder" in server_warnings(there, Answer(), "vLLM")[0]
    assert server_ids(3) == ("inference", "inference-2", "inference-3")
