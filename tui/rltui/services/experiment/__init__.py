"""An experiment's files, its layout, and the launches that are made of both."""
