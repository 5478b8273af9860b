"""Explain language-model answers with Shapley-style attributions, spread over many machines."""
