"""Fits from files that need not fit in memory: time and memory by the number of rows, and the same bits everywhere."""
