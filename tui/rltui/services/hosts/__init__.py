"""Where components run: commands of schedulers and ssh, and the parsing of what they print."""
