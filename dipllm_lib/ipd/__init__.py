"""Study 2: cooperation through in-context co-player inference in the iterated prisoner's dilemma."""
