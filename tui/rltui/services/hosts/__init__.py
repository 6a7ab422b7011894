"""The hosts of components: commands of schedulers and ssh, and the parsing of their output."""
