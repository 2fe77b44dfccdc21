"""`keras-transformer data`: what one wants to know about a corpus before training."""
