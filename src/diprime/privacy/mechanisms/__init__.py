"""The mechanisms, each with its proof and its exact distribution beside it."""
