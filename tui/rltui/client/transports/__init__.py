"""How questions travel: to a supervisor over its unix socket, to the rltui of another machine over ssh."""
