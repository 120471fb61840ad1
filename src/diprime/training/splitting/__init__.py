"""Ways of choosing a split: each states its costs and their range, and leaves the draw to a mechanism."""
