"""Study 3: multi-agent KTO in language games.

Two policies behind one core: `TabularPolicy` for statistics, `LMPolicy` for the language model.
"""
