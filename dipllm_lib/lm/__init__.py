"""A causal language model as a policy over a finite set of legal texts."""
