"""The GPUs in words: who holds their memory, what a start would do, what to do about it."""
