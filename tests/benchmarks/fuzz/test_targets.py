"""Sound files are read, others are refused, and an error of another kind passes through."""

import pytest

from benchmarks.fuzz import targets
from benchmarks.fuzz.seeds import SEEDS
from benchmarks.fuzz.targets import TARGETS, WrongMessageError

BROKEN = {
    "model": b"DIPRIME\0 and nothing else",
    "domain": b'{"features": 3}',
    "budget": b'{"diprime_budget": 1}\n',
    "csv": b"a,b\n1,2,3\n",
    "parquet": b"PAR1 and nothing else",
}


@pytest.fixture(autouse=True)
def use_everything(monkeypatch):
    monkeypatch.setattr(targets, "chosen", lambda data, every: True)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_valid_files_are_read_and_invalid_ones_refused(kind, tmp_path):
    target = TARGETS[kind](tmp_path)
    outcomes = {target(data) for data in SEEDS[kind]()}
    assert "read" in outcomes
    if kind in ("model", "domain", "budget"):
        assert outcomes == {"read"}
    assert target(BROKEN[kind]) == "refused"


def test_a_wrong_message_is_an_error(tmp_path):
    path = tmp_path / "input"
    assert targets.refused(ValueError(f"{path} is damaged."), path) == "refused"
    for message in ("is damaged.", f"{path} is damaged", f"{path} Traceback."):
        with pytest.raises(WrongMessageError):
            targets.refused(ValueError(message), path)
