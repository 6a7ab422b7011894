"""The GPUs as the supervisor watches them."""
