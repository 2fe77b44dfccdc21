"""Analysis of models and data: explanations, comparisons, and the data report."""
