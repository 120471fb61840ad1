"""Training plans the budget, asks an engine for sums and lets mechanisms release; it never sees a row."""
