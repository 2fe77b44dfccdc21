"""Coverage-guided fuzzing of parsers: `python -m training.reliability.fuzz`."""
