"""Study 2: cooperation through in-context inference of the co-player, iterated dilemma."""
