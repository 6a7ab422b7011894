"""Write a Qwen3 model of two layers with a tokenizer of characters. Usage: make_model.py FOLDER

Run by an interpreter that has transformers, which comes with vLLM. It has the special words of Qwen3, since
only named renderers of prime-rl can tell answers from the other tokens of a conversation.
"""

import string
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

folder = Path(sys.argv[1])
words = [*SPECIAL, *TAGS, "<unk>", "\n", *string.printable[:95]]
tokenizer = Tokenizer(
    models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
)
tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tokenizer.decoder = decoders.Fuse()
tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
tokenizer.add_tokens([AddedToken(word) for word in TAGS])
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token=SPECIAL[0], eos_token=SPECIAL[2], unk_token="<unk>"
)
fast.chat_template = TEMPLATE
fast.save_pretrained(folder)
torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=len(words),
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    max_position_embeddings=512,
    eos_token_id=words.index(SPECIAL[2]),
    pad_token_id=0,
    tie_word_embeddings=False,
)
Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
