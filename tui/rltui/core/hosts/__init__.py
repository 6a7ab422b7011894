"""The hosts of components, as layout and command line describe them. Pure."""
