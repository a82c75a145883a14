"""How anything runs: profiles, storage, seeds, processes, notebooks. Knows nothing of games."""
