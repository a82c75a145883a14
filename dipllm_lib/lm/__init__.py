"""A causal language model as a policy over a finite set of legal texts."""

import warnings

# a progress bar without widgets is what we want in a notebook; the libraries below warn about it
warnings.filterwarnings("ignore", message="IProgress not found")
