"""Where components run, as layout and command line say it. Pure."""
