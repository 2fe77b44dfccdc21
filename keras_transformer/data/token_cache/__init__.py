"""A corpus tokenised once, with all cores, into files that are memory-mapped."""
