"""What exists for the reproduction of the DiPriMe paper only."""
