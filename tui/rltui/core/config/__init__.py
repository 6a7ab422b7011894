"""What a config file says, what may be written into it, and what follows from it."""
