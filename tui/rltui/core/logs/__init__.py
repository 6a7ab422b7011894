"""Lines of a program's output: what they are, how they are shown, folded and searched. Pure."""
