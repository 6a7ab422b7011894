"""Values and texts that every layer uses: nothing here knows what rltui is for."""
