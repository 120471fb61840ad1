"""Helpers that are independent of privacy and of trees.

- `threads`: the number of threads, and a pool that works on contiguous shards;
- `progress`: a progress bar for long fits;
- `atomic_file`: files that are written completely or not at all;
- `version`: the version of the package.
"""
