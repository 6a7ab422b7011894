"""What the taskset `reverse-text` asks for, also for SFT."""

SENTENCES = ("a fast red kite", "no rain today", "seven small boats", "the old clock", "winter is long")


def question(text: str) -> str:
    """The prompt."""
    return f"Reverse: {text}"
