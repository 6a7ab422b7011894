"""The content of a config file, the edits that it admits, and the values that follow from it."""
