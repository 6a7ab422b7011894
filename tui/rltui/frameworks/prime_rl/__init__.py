"""prime-rl in the three generations whose files are found today: a package with a `Framework` value each."""
