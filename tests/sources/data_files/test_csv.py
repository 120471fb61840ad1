"""Records of CSV: blank lines are left out, records of another length are refused; `test_data_file` tests files."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.sources.data_files.csv import RaggedRecordError, RecordReader

NAMES = ["a", "b", "c"]


def written(records):
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(records)
    return file.getvalue().encode()


def read(data, names=NAMES, block_bytes=1 << 16):
    batches = RecordReader(io.BytesIO(data), names, ",", block_bytes).batches(names)
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


fields = st.text('a,"\n\r;', max_size=4)
whole = st.lists(st.lists(fields, min_size=3, max_size=3), max_size=8)


@given(whole, st.data())
@settings(deadline=None)
def test_only_blank_lines_are_skipped(records, data):
    lines = [written([record]) for record in records]
    blanks = data.draw(st.lists(st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]), min_size=len(lines) + 1))
    with_blanks = b"".join(blank + line for blank, line in zip(blanks, [*lines, b""], strict=False))
    assert read(with_blanks) == records


@given(whole, st.lists(fields, min_size=1, max_size=6).filter(lambda record: len(record) != 3), whole)
@settings(deadline=None)
def test_first_ragged_record_is_found(before, ragged, after):
    with pytest.raises(RaggedRecordError) as caught:
        read(b"\n" + written([*before, ragged, *after]))
    assert (caught.value.row, caught.value.n_fields) == (len(before) + 1, len(ragged))


@pytest.mark.parametrize(
    "data", [b'"1,2,3\n4,5,6\n', b'1,2,"3\n4,5,6\n', b'1,2,"3', b'1,2,3\n4,"5,6', b'1,2,3\n"', b'1,2,"3""\n']
)
@pytest.mark.parametrize("block_bytes", [64, 1 << 16])
def test_open_quote_is_refused(data, block_bytes):
    with pytest.raises(pa.ArrowInvalid):
        read(data, NAMES, block_bytes)


@pytest.mark.parametrize("data", [b'"1\n', b'1\n"2', b'1\n"', b'"1""\n2\n\n'])
def test_open_quote_in_a_single_column_is_refused(data):
    with pytest.raises(pa.ArrowInvalid):
        read(data, ["a"])


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_last_record_needs_no_line_break(end):
    assert read(b"1,2,3\n4,,6" + end) == [["1", "2", "3"], ["4", None, "6"]]
    assert read(b"1\n\n2" + end, ["a"])[:3] == [["1"], [None], ["2"]]
    assert len(read(b"1\n\n2" + end, ["a"])) == 3 + (end == b"\n\n")


@pytest.mark.parametrize("names", [NAMES, ["a"]])
def test_file_may_have_no_records(names):
    assert read(b"", names) == []


def test_byte_order_marks_and_line_breaks_are_preserved():
    record = '\ufeff1,\ufeff,"x\r\n\r\r\ny"\n'.encode()
    for block_bytes in range(40, 80):
        assert read(5 * record, NAMES, block_bytes) == 5 * [["\ufeff1", "\ufeff", "x\r\n\r\r\ny"]]


@pytest.mark.parametrize("block_bytes", range(40, 60))
def test_multibyte_characters_may_span_blocks(block_bytes):
    assert read("é€😀,,\n".encode() * 9, NAMES, block_bytes) == 9 * [["é€😀", None, None]]


def test_quoted_empty_text_is_not_null():
    assert read(b'"",,\x00\n') == [["", None, "\x00"]]
