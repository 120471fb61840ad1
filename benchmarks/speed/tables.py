"""Tables and bars of the reports of :mod:`benchmarks.speed`."""

from __future__ import annotations


def table(title: str, times: dict[str, float], reference: str) -> str:
    lines = [f"## {title}", "", "| learner or task | seconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {seconds:.3f} | {seconds / times[reference]:.2f} |" for name, seconds in times.items()]
    return "\n".join([*lines, ""])


def at_least(bar: float, name: str, value: float) -> str:
    return f"* {'met' if value >= bar else 'MISSED'}: {name}: {value:.2f} (bar: at least {bar:g})"


def at_most(bar: float, name: str, value: float) -> str:
    return f"* {'met' if value <= bar else 'MISSED'}: {name}: {value:.2f} (bar: at most {bar:g})"


def memory_line(what: str, memory: dict[str, float]) -> str:
    return (
        f"Additional peak memory of {what}: {memory['extra'] / 2**20:.0f} MiB, for an input of "
        f"{memory['input'] / 2**20:.0f} MiB."
    )
