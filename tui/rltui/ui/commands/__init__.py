"""What keys do, without the screens that have them: a command reaches its screen through `Frontend`."""
