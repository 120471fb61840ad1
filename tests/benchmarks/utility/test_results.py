"""The scores of the utility benchmark are kept, read back, and dropped with the code that they were measured with."""

import math

from benchmarks.utility.results import Key, Results


def test_results_with_gaps_round_trip_and_are_dropped_with_their_code(tmp_path):
    path = tmp_path / "deep" / "results.json"
    results = Results(path)
    keys = Key("ours", "metro", math.inf), Key("ours", "puc", 0.1)
    results.put(keys[0], "old", 2, {"mse": 0.123456789})
    results.put(keys[1], "old", 0, {"accuracy": 0.5, "auc": 0.75})
    results.save()
    again = Results(path)
    assert again.missing(keys[0], "old", 4) == [0, 1, 3]
    assert again.of(*keys[0], "mse") == [0.123457]
    assert again.of(*keys[1], "auc") == [0.75]
    assert again.missing(keys[0], "new", 2) == [0, 1]
    again.put(keys[0], "new", 0, {"mse": 1.0})
    assert again.missing(keys[0], "new", 3) == [1, 2]
    again.drop("ours")
    assert again.missing(keys[1], "old", 1) == [0]
