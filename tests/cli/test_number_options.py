"""Numbers on the command line never become infinite or zero without a word."""

import math

import pytest
import typer

from diprime.cli.number_options import read_number
from tests.cli.running import refused


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("0.1", 0.1), ("1e-6", 1e-6), ("inf", math.inf), ("Infinity", math.inf), ("0", 0.0), (0.25, 0.25)],
)
def test_numbers_are_read(text, number):
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400", "1e999999999"])
def test_numbers_beyond_floats_are_refused(text):
    with pytest.raises(typer.BadParameter, match="too large or too small"):
        read_number(text)


@pytest.mark.parametrize("text", ["nan", "snan", "-sNaN12", "much", ""])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(typer.BadParameter, match=f"^{text!r} is not a number$"):
        read_number(text)


@pytest.mark.parametrize("option", ["--epsilon", "--delta"])
def test_options_are_read_in_this_way(folder, tmp_path, option):
    values = {"--epsilon": "1", "--delta": "1e-6", option: "1e400" if option == "--epsilon" else "1e-400"}
    options = [word for pair in values.items() for word in pair]
    command = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "--boost", "-o", tmp_path / "m", *options)
    assert "is too large or too small" in refused(*command, code=2)
    command = ("budget", "new", tmp_path / "b", *options)
    assert "is too large or too small" in refused(*command, code=2)
    assert "is not a number" in refused("budget", "new", tmp_path / "b", *options[:2], option, "much", code=2)
