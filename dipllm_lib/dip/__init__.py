"""Study 1: DipLLM, no-press Diplomacy."""
