"""From a token cache to batches: few shapes, little padding, a pure function of the number."""
