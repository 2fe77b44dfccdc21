"""Examples from files or from memory: streamed, checked, counted; what is wrong has a line."""
