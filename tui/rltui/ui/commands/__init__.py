"""Controllers do the work of keys and reach their screen through `Frontend` alone."""
