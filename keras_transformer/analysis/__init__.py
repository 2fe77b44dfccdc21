"""Commands that look into a model or its data: explain, compare, data report."""
