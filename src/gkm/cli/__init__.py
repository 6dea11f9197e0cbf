"""The `gkm` command for people. No logic lives here: arguments in, one call to a room below, words out."""
