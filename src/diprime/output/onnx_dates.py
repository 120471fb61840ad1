"""Operators that encode dates: the cells of their order and the parts of the calendar, in integers."""

from __future__ import annotations

import numpy as np

from diprime.domain import MISSING, Date
from diprime.domain.dates import DatePart
from diprime.domain.moments import DAY, HOUR, NEVER, month
from diprime.output.onnx_graph import Graph

DAYS_OF_400_YEARS = 146_097
"""After so many days the calendar repeats."""


def encode_dates(graph: Graph, values: str, features: list[Date]) -> str:
    """Add operators that encode the columns of moments; return the codes of their coded features, in order."""
    codes = []
    for column, feature in enumerate(features):
        moments = graph.add("Gather", values, graph.integers([column]), axis=1)
        is_missing = graph.add("Equal", moments, graph.integers(NEVER))
        moments = graph.add("Where", is_missing, graph.integers(0), moments)  # the smallest integer would overflow
        for coded in feature.coded("").values():
            known = _order(graph, moments, coded) if isinstance(coded, Date) else _part(graph, moments, coded)
            codes.append(graph.add("Where", is_missing, graph.integers(MISSING), known))
    return graph.add("Concat", *codes, axis=1)


def _order(graph: Graph, moments: str, date: Date) -> str:
    """Add operators that count the thresholds at or below each moment."""
    is_reached = graph.to_integer(graph.add("GreaterOrEqual", moments, graph.integers(date.thresholds[None])))
    return graph.add("ReduceSum", is_reached, graph.integers([1]), keepdims=1)


def _part(graph: Graph, moments: str, part: DatePart) -> str:
    since_midnight = graph.add("Mod", moments, graph.integers(DAY))  # not negative, as in Python
    if part.name == "hour":
        return graph.add("Div", since_midnight, graph.integers(HOUR))
    days = graph.add("Div", graph.add("Sub", moments, since_midnight), graph.integers(DAY))
    if part.name == "weekday":
        return graph.add("Mod", graph.add("Add", days, graph.integers(3)), graph.integers(7))
    months = month(np.arange(DAYS_OF_400_YEARS) * DAY)
    day_of_calendar = graph.add("Mod", days, graph.integers(DAYS_OF_400_YEARS))
    return graph.to_integer(graph.add("Gather", graph.constant(months.astype(np.uint8)), day_of_calendar))
