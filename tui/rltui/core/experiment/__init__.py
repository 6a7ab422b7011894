"""An experiment's components: layout, states, plans, requests. Pure."""
