"""The option that weighs classes: what it is read as, and its mistakes."""

import json

import pytest

from diprime import Categorical, Domain, Numeric, load
from diprime.cli.class_weight_options import class_weight_arguments
from diprime.cli.data_files import InputError
from tests.cli.running import ok, refused

FEATURES = {"x": Numeric(0, 1)}
TEXT = Domain(FEATURES, Categorical(["a=b", "no"]))
NUMBERS = Domain(FEATURES, Categorical([0, 1, 2.5]))


@pytest.mark.parametrize(
    ("domain", "options", "expected"),
    [
        (TEXT, None, {}),
        (TEXT, ["balanced"], {"class_weight": "balanced"}),
        (TEXT, ["balanced", "balanced"], {"class_weight": "balanced"}),
        (TEXT, ["a=b=3", "no=0.5"], {"class_weight": {"a=b": 3.0, "no": 0.5}}),
        (NUMBERS, ["1=2", "2.5=7"], {"class_weight": {1: 2.0, 2.5: 7.0}}),
        (Domain(FEATURES, Categorical(["balanced", "no"])), ["balanced=2"], {"class_weight": {"balanced": 2.0}}),
    ],
)
def test_weights_are_read_as_classes_of_the_domain(domain, options, expected):
    assert class_weight_arguments(options, domain) == expected


@pytest.mark.parametrize(
    ("domain", "options", "message"),
    [
        (TEXT, ["no"], "--class-weight no cannot be read"),
        (TEXT, ["no=much"], "--class-weight no=much cannot be read"),
        (TEXT, ["yes=2"], "'yes' is not a class"),
        (TEXT, ["no=2", "no=3"], "two weights"),
        (
            TEXT,
            ["balanced", "no=3"],
            "--class-weight balanced weighs all classes; leave it out, or leave out the other",
        ),
        (Domain(FEATURES, Numeric(0, 1)), ["balanced"], "the target of the domain is a number"),
        (Domain(FEATURES, Categorical()), ["no=3"], "leaves open"),
    ],
)
def test_mistakes_are_named(domain, options, message):
    with pytest.raises(InputError, match=message):
        class_weight_arguments(options, domain)


@pytest.mark.parametrize("more", [[], ["--boost"]])
def test_models_are_fitted_with_weights(folder, tmp_path, more):
    path = tmp_path / "model.diprime"
    common = (folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, *more, "-o", path)
    ok("fit", *common, "--class-weight", "balanced")
    assert load(path).class_weight == "balanced"
    target = load(path).classes_.tolist()
    ok("fit", *common, "--class-weight", f"{target[0]}=3")
    assert load(path).class_weight == {target[0]: 3.0, target[1]: 1.0}
    tried = ["--try", "n_rounds=5,10"] if more else ["--try", "max_depth=1,2"]
    said = json.loads(ok("search", *common, *tried, "--class-weight", "balanced", "--json"))
    assert said["ledger"] == load(path).privacy_.to_dict()
    assert load(path).class_weight == "balanced"
    assert "not a class of the domain" in refused("fit", *common, "--class-weight", "nobody=3")
    assert "weights from 1e-09 to 1e+09" in refused("fit", *common, "--class-weight", f"{target[0]}=-3")


@pytest.mark.parametrize("more", [[], ["--boost"]])
def test_fit_and_show_tell_the_weights(folder, tmp_path, more):
    path = tmp_path / "model.diprime"
    fit = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, *more, "-o", path)
    assert "weight" not in ok(*fit)
    assert "Class weights" not in ok("show", path)
    assert json.loads(ok("show", path, "--json"))["class_weight"] is None

    first, second = load(path).domain_.target.levels
    pairs = [{"class": first, "weight": 1.0}, {"class": second, "weight": 3.5}]
    for option, words, content in (
        ("balanced", "Class weights: balanced. They weigh what is predicted", "balanced"),
        (f"{second}=3.5", f"Class weights: {first}: 1, {second}: 3.5. They weigh what is predicted", pairs),
    ):
        assert words in ok(*fit, "--class-weight", option)
        assert words in ok("show", path)
        assert json.loads(ok("show", path, "--json"))["class_weight"] == content
        assert json.loads(ok(*fit, "--class-weight", option, "--json"))["class_weight"] == content
