"""The utility bounds of the DiPriMe paper, as printed and as corrected."""

from diprime.paper.theory import (
    accuracy_loss,
    against_random,
    flip_probability,
    left_count_probabilities,
    occupancy,
    published_accuracy_loss,
    published_sse_excess,
    random_occupancy,
    sse_excess,
)

__all__ = [
    "accuracy_loss",
    "against_random",
    "flip_probability",
    "left_count_probabilities",
    "occupancy",
    "published_accuracy_loss",
    "published_sse_excess",
    "random_occupancy",
    "sse_excess",
]
