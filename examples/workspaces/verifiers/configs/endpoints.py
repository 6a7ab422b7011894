"""Servers that vf-eval knows by name (`-m local`). `key` names the variable with the API key."""

ENDPOINTS = {
    "local": {
        "model": "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT",
        "url": "http://localhost:8000/v1",
        "key": "VLLM_API_KEY",
    },
}
