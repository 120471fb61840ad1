"""Records of CSV: blank lines are left out, records of another length are refused; `test_data_files` tests files."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.cli.csv_records import Dialect, RaggedRecordError, checked_records, end_of_records

THREE = Dialect(ord(","), 3)


def written(records):
    file = io.StringIO()
    csv.writer(file).writerows(records)
    return file.getvalue().encode()


fields = st.text('a,"\n\r;', max_size=4)
whole = st.lists(st.lists(fields, min_size=3, max_size=3), max_size=8)


@given(whole, st.data())
@settings(deadline=None)
def test_blank_lines_vanish_and_nothing_else(records, data):
    lines = [written([record]) for record in records]
    blanks = data.draw(st.lists(st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]), min_size=len(lines) + 1))
    with_blanks = b"".join(blank + line for blank, line in zip(blanks, [*lines, b""], strict=False))
    assert checked_records(with_blanks, THREE) == b"".join(lines)


@given(whole, st.lists(fields, min_size=1, max_size=6).filter(lambda record: len(record) != 3), whole)
@settings(deadline=None)
def test_the_first_ragged_record_is_found(before, ragged, after):
    if ragged == [""]:  # written as "", which is no blank line
        assert written([ragged]) == b'""\r\n'
    with pytest.raises(RaggedRecordError) as caught:
        checked_records(b"\n" + written([*before, ragged, *after]), THREE)
    assert (caught.value.row, caught.value.n_fields) == (len(before), len(ragged))


def test_an_open_quote_is_left_to_the_reader():
    assert checked_records(b'a,b,c\n1,"2,3\n', THREE) == b'a,b,c\n1,"2,3\n'
    assert end_of_records(b'a,b,c\n1,"2,3\n') == len(b"a,b,c\n")


def test_the_last_record_needs_no_line_break():
    assert checked_records(b"a,b,c\n1,2,3", THREE) == b"a,b,c\n1,2,3\n"
    assert checked_records(b"", THREE) == b""
