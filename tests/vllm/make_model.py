"""Write a Qwen3 model of two layers with a tokenizer of characters. Usage: make_model.py FOLDER

Run by an interpreter that has transformers, which comes with vLLM.
"""

import string
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

folder = Path(sys.argv[1])
words = ["<pad>", "<eos>", "<unk>", *string.printable[:95]]
tokenizer = Tokenizer(
    models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
)
tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tokenizer.decoder = decoders.Fuse()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
fast.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
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
    eos_token_id=1,
    pad_token_id=0,
    tie_word_embeddings=False,
)
Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
