"""Three studies of strategic language models, one library under numbered notebooks."""

__version__ = "0.1.0"
