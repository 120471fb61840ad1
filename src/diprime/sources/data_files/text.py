"""Text as values of a domain.

The value of a text depends only on the text and the public domain. If types were inferred from the data, one record
could affect how another one is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from diprime.domain import Categorical, Date
from diprime.domain.encoding import UNLISTED, CategoryIndex
from diprime.domain.features import Feature
from diprime.domain.values import MISSING_DATE, Markers, canonical_value, is_number, moments_of_values, spelled_number

Mask = npt.NDArray[np.bool_]

_WITH_COMMA = r"^[+-]?(?:[0-9]+,[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NUMBER = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"


def is_text_type(kind: pa.DataType) -> bool:
    """Return whether a type is text, without a dictionary."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(stripped: pa.Array, missing: Markers) -> pa.Array:
    """Return which texts, stripped of outer spaces, are neither null nor mean a missing value."""
    markers = pc.is_in(stripped, value_set=pa.array(sorted(missing), stripped.type))
    return pc.and_(pc.is_valid(stripped), pc.invert(markers))


def read_values(
    column: pa.Array, feature: Feature, missing: Markers, *, decimal_commas: bool = False
) -> tuple[pa.Array, Mask]:
    """Return text as values of a feature, other values unchanged, and a mask of invalid text."""
    column = column.cast(plain_type(column.type))
    if not is_text_type(column.type):
        return column, np.zeros(len(column), dtype=np.bool_)
    if isinstance(feature, Date):
        return read_dates(column, missing)
    if isinstance(feature, Categorical):
        values = read_categories(column, feature, missing, decimal_commas=decimal_commas)
        return values, np.zeros(len(column), dtype=np.bool_)
    return read_numbers(column, missing, decimal_commas=decimal_commas)


def read_numbers(column: pa.Array, missing: Markers, *, decimal_commas: bool = False) -> tuple[pa.Array, Mask]:
    """Return text as numbers, null or NaN if missing, and a mask of text that is neither."""
    text = stripped = pc.utf8_trim_whitespace(column)
    if decimal_commas:  # only the first comma: 1,234,567 is invalid
        text = pc.replace_substring(text, ",", ".", max_replacements=1)
    is_spelled = pc.match_substring_regex(text, _NUMBER)
    numbers = pc.if_else(is_spelled, text, None).cast(pa.float64())
    return numbers, as_mask(pc.and_(is_text(stripped, missing), pc.invert(is_spelled)))


def as_mask(values: pa.Array) -> Mask:
    """Return Booleans as a NumPy array, with False for null."""
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def read_dates(column: pa.Array, missing: Markers) -> tuple[pa.Array, Mask]:
    """Return text as datetimes, null if missing, and a mask of text that is neither."""
    encoded = column.dictionary_encode()
    found = pa.array(moments_of_values(encoded.dictionary.to_pylist()))
    found = pc.if_else(pc.equal(found, MISSING_DATE), None, found).cast(pa.timestamp("us"))
    dates = found.take(encoded.indices)
    is_other = is_text(pc.utf8_trim_whitespace(column), missing)
    return dates, as_mask(pc.and_(is_other, pc.is_null(dates)))


def read_categories(
    column: pa.Array, feature: Categorical, missing: Markers, *, decimal_commas: bool = False
) -> pa.Array:
    """Return text as values of a categorical feature, with the type of its categories if it lists any."""
    if not feature.is_undeclared and feature.n_buckets is None:
        return read_listed_categories(column, feature.categories, missing, decimal_commas=decimal_commas)
    text = pc.utf8_trim_whitespace(column)
    return _with_points(text) if decimal_commas else text


def _with_points(text: pa.Array) -> pa.Array:
    """Return text with decimal points instead of decimal commas in numbers."""
    return pc.if_else(pc.match_substring_regex(text, _WITH_COMMA), pc.replace_substring(text, ",", "."), text)


def read_listed_categories(
    column: pa.Array, categories: Sequence[Any], missing: Markers, *, decimal_commas: bool = False
) -> pa.Array:
    """Return text as values that the domain maps to the same categories: numbers if all categories are, else text."""
    index = CategoryIndex(categories, missing)
    encoded = column.dictionary_encode()
    texts = encoded.dictionary
    if decimal_commas:
        is_unlisted = [index.position(text) == UNLISTED for text in texts.to_pylist()]
        texts = pc.if_else(pa.array(is_unlisted, pa.bool_()), _with_points(pc.utf8_trim_whitespace(texts)), texts)
    numbers = [float(canonical_value(category)) for category in categories if is_number(category)]
    if len(numbers) < len(categories):
        return pa.DictionaryArray.from_arrays(encoded.indices, texts)
    other = next(number for number in itertools.count() if number not in numbers)
    of_position = [*numbers, None, other]  # negative positions: None for ABSENT, other for UNLISTED
    values = [of_position[index.position(text)] for text in texts.to_pylist()]
    return pa.array(values, pa.float64()).take(encoded.indices)


def find_category(text: str, categories: Sequence[Any]) -> Any:
    """Return the category that text represents, as in `read_listed_categories`, or None."""
    position = CategoryIndex(categories).position(text)
    return categories[position] if position >= 0 else None


def to_number(text: str, *, decimal_commas: bool = False) -> int | float | None:
    """Return the number that text represents, or None."""
    return spelled_number(text.replace(",", ".", 1) if decimal_commas else text)
