"""Transports of questions: a supervisor's unix socket, and ssh to the rltui of another machine."""
