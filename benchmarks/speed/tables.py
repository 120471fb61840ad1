"""Tables and bars of the reports of :mod:`benchmarks.speed`."""

from __future__ import annotations


def table(title: str, times: dict[str, float], reference: str) -> str:
    lines = [f"### {title}", "", "| | seconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {seconds:.3f} | {seconds / times[reference]:.2f} |" for name, seconds in times.items()]
    return "\n".join([*lines, ""])


def verdict(what: str, value: float, bar: float, *, at_least: bool) -> str:
    good = value >= bar if at_least else value <= bar
    return f"* {'met' if good else 'MISSED'}: {what}: {value:.2f} ({'at least' if at_least else 'at most'} {bar:g})"


def memory_line(what: str, memory: dict[str, float]) -> str:
    return (
        f"Peak extra memory of {what}: {memory['extra'] / 2**20:.0f} MiB beside an input of "
        f"{memory['input'] / 2**20:.0f} MiB."
    )
