"""Options that many commands share, and the files of domains and scores that they name."""

import hashlib
import inspect
import json
import os

import polars as pl
import pytest
import typer

import diprime
from diprime import (
    Budget,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivateSearch,
    load,
    private_score,
)
from diprime._util import InputError
from diprime.cli.budget import new_budget
from diprime.cli.domain import learn_domain
from diprime.cli.fit import fit, plan, search
from diprime.cli.models import score
from diprime.cli.options import (
    class_weight_arguments,
    read_domain,
    read_number,
    read_settings,
)
from diprime.estimators.parameters import ForestParameters, parameters_of
from tests.cli.running import ok, refused


def paying(command, folder):
    """Return the arguments of a command that pays, but for its output and budget."""
    data, domain = folder / "people.csv", ("-d", folder / "domain.toml")
    return {
        "fit": ("fit", data, *domain, "-e", 1),
        "search": ("search", data, *domain, "-e", 1, "--try", "max_depth=1,2"),
        "score": ("score", folder / "model.diprime", data, "-e", 1),
    }[command]


@pytest.mark.parametrize("command", ["fit", "search", "score"])
def test_unwritable_output_is_refused_before_the_charge(command, folder, tmp_path, monkeypatch):
    budget, closed = tmp_path / "study.budget", tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "link").symlink_to(closed / "m")
    access = os.access

    def may(path, mode):
        return access(path, mode) and not (mode & os.W_OK and str(path) == str(closed))

    monkeypatch.setattr(os, "access", may)
    ok("budget", "new", budget, "-e", 2)
    arguments = (*paying(command, folder), "--budget", budget, "-o")
    refused(*arguments, closed, match=rf" {closed}: .*directory\. .*not charged\.$")
    for output in (closed / "m", tmp_path / "link"):  # a link leads to a file, which is replaced in its own folder
        refused(*arguments, output, match=rf" {output}: .*permission .*directory {closed}\. .*not charged\.$")
    refused(*arguments, tmp_path / "none" / "m", match=r"none/m: .*exist\.")
    assert json.loads(ok("budget", "show", budget, "--json"))["entries"] == []


def reading(command, folder, tmp_path):
    """Return the arguments of a command that reads a model, but for its digest."""
    model, data, budget = folder / "model.diprime", folder / "people.csv", tmp_path / "study.budget"
    return {
        "predict": ("predict", model, data, "-o", tmp_path / "out.csv"),
        "explain": ("explain", model, data),
        "score": ("score", model, data, "-e", 1, "--budget", budget),
        "show": ("show", model),
        "report": ("report", model, "-o", tmp_path / "out.html"),
    }[command]


@pytest.mark.parametrize("command", ["predict", "explain", "score", "show", "report"])
def test_model_with_another_digest_is_refused_without_charge_or_output(command, folder, tmp_path):
    model, budget = folder / "model.diprime", tmp_path / "study.budget"
    ok("budget", "new", budget, "-e", 2)
    before = budget.read_bytes()
    arguments = reading(command, folder, tmp_path)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    refused(*arguments, "--sha256", "0" * 64, match=rf"{model} .*expected file: .*{digest}, .*{'0' * 64}\.")
    refused(*arguments, "--sha256", digest[:-1], match=r"sha256 .*64 hexadecimal")
    assert budget.read_bytes() == before
    assert list(tmp_path.glob("out*")) == []
    ok(*arguments, "--sha256", digest)


@pytest.mark.parametrize("command", ["fit", "search"])
def test_digest_of_a_new_model_is_printed(command, folder, tmp_path):
    arguments, output = paying(command, folder), tmp_path / "m"
    for as_json in (False, True):
        printed = ok(*arguments, "-o", output, "--force", *(["--json"] if as_json else []))
        digest = hashlib.sha256(output.read_bytes()).hexdigest()
        if as_json:
            assert json.loads(printed)["sha256"] == digest
        else:
            assert printed.endswith(f"\n\nWritten to {output}; its SHA-256 is {digest}.\n")


DOMAIN = Domain({"age": Numeric(0, 255)}, Categorical(["no", "yes"]), target_name="y")


def written(folder, text, name):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def test_domain_files_are_toml_or_json(tmp_path):
    for name, text in (("d.toml", DOMAIN.to_toml()), ("d.json", DOMAIN.to_json())):
        assert read_domain(written(tmp_path, text, name)) == DOMAIN
    with pytest.raises(InputError, match=r"d\.toml .*a domain: .*valid TOML"):
        read_domain(written(tmp_path, "a,b", "d.toml"))
    with pytest.raises(InputError, match=r"d\.toml .*UTF-8"):
        read_domain(written(tmp_path, b"\xff", "d.toml"))
    assert read_domain(written(tmp_path, "\ufeff" + DOMAIN.to_toml(), "d.toml")) == DOMAIN


@pytest.mark.parametrize("name", ["d.toml", "d.json"])
def test_domain_file_cannot_name_another_file(tmp_path, name):
    other = written(tmp_path, DOMAIN.to_toml() if name == "d.toml" else DOMAIN.to_json(), f"other-{name}")
    with pytest.raises(InputError, match=rf"{name} .*a domain: .*valid (TOML|JSON)"):
        read_domain(written(tmp_path, str(other), name))


@pytest.mark.parametrize("content", [b"#" * 2**24 + b"\n", b"a=[" + b"0," * 2**19 + b"0]"])
def test_domain_files_that_would_fill_the_memory_are_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"d\.toml .*too large"):
        read_domain(written(tmp_path, content, "d.toml"))


@pytest.mark.parametrize("text", ["nan", "snan", "-sNaN12", "much", ""])
def test_texts_that_are_not_numbers_are_refused(text):
    with pytest.raises(typer.BadParameter, match=f"^{text!r} .*number$"):
        read_number(text)


@pytest.mark.parametrize("option", ["--epsilon", "--delta"])
def test_number_options_refuse_values_beyond_floats(folder, tmp_path, option):
    values = {"--epsilon": "1", "--delta": "1e-6", option: "1e400" if option == "--epsilon" else "1e-400"}
    options = [word for pair in values.items() for word in pair]
    command = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "--boost", "-o", tmp_path / "m", *options)
    refused(*command, code=2, match=rf"'{values[option]}' .*large or .*small")
    command = ("budget", "new", tmp_path / "b", *options)
    refused(*command, code=2, match=rf"'{values[option]}' .*large or .*small")
    refused("budget", "new", tmp_path / "b", *options[:2], option, "much", code=2, match=rf"{option}.*'much' .*number")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["max_depth"], r"--try .*NAME=VALUE,VALUE, .*got max_depth\."),
        (["max_depth="], r"--try .*NAME=VALUE,VALUE, .*got max_depth=\."),
        (["depth=1"], r"DiPriMeClassifier .*'depth' .*balance, disjoint_rows, max_depth"),
        (["epsilon=1"], r"DiPriMeClassifier .*no parameter 'epsilon' "),
        (["max_depth=1", "max_depth=2"], r"--try max_depth .*twice"),
    ],
)
def test_invalid_searched_values_are_named(options, message):
    with pytest.raises(InputError, match=message):
        read_settings(options, DiPriMeClassifier())


@pytest.mark.parametrize("more", [[], ["--boost", "--delta", 1e-5]])
def test_search_writes_the_chosen_model(folder, tmp_path, more):
    tried = ["--try", "n_rounds=5,10"] if more else ["--try", "max_depth=1,2,3", "--try", "balance=0,1"]
    path = tmp_path / "model.diprime"
    arguments = ("search", folder / "people.csv", "-d", folder / "domain.toml", "-e", 3, *tried, *more, "-o", path)
    said = json.loads(ok(*arguments, "--json"))
    model = load(path)
    assert {name: getattr(model, name) for name in said["chosen"]} == said["chosen"]
    assert said["ledger"] == model.privacy_.to_dict()
    assert (model.privacy_.total, float(model.privacy_.delta)) == (3, 1e-5 if more else 0)
    assert ok(*arguments, "--force").startswith("Selected: ")
    assert ("fits of 2 combinations" if more else "best of a random number of fits") in ok("show", path)
    ok("report", path, "-o", tmp_path / "report.html")
    assert "; the ledger contains its cost" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("boost", [(), ("--boost",)])
def test_search_protects_people(folder, tmp_path, boost):
    people = pl.read_csv(folder / "people.csv")
    people.with_columns(pl.Series("who", [i // 2 for i in range(people.height)])).write_csv(tmp_path / "visits.csv")
    tried = "n_rounds=2,3" if boost else "max_depth=1,2"
    options = ("--person", "who", "--max-records-per-person", 3, "--try", tried, *boost)
    ok("search", tmp_path / "visits.csv", "-d", folder / "domain.toml", "-e", 1, *options, "-o", tmp_path / "m")
    assert load(tmp_path / "m").privacy_.privacy_unit_text == "one person, up to 3 records,"


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
        (TEXT, ["no"], r"--class-weight .*CLASS=WEIGHT, .*got no\."),
        (TEXT, ["no=much"], r"--class-weight .*CLASS=WEIGHT, .*got no=much\."),
        (TEXT, ["yes=2"], r"--class-weight yes=2: 'yes' .*class of"),
        (TEXT, ["no=2", "no=3"], r"--class-weight .*'no' twice"),
        (TEXT, ["balanced", "no=3"], r"--class-weight balanced .*other class weights"),
        (Domain(FEATURES, Numeric(0, 1)), ["balanced"], r"--class-weight .*target .*numeric"),
        (Domain(FEATURES, Categorical()), ["no=3"], r"--class-weight .*classes, .*domain .*list"),
    ],
)
def test_invalid_class_weights_are_named(domain, options, message):
    with pytest.raises(InputError, match=message):
        class_weight_arguments(options, domain)


@pytest.mark.parametrize("boost", [(), ("--boost", "--rounds", 5)], ids=["forest", "boosting"])
def test_class_weights_are_fitted_saved_and_printed(folder, tmp_path, boost):
    path = tmp_path / "model.diprime"
    fit = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, *boost, "-o", path, "--force")
    assert "Class weights" not in ok(*fit)
    assert "Class weights" not in ok("show", path)
    assert json.loads(ok("show", path, "--json"))["class_weight"] is None

    first, second = load(path).domain_.target.categories
    pairs = [{"class": first, "weight": 1.0}, {"class": second, "weight": 3.5}]
    for option, weights, words, content in (
        ("balanced", "balanced", "balanced", "balanced"),
        (f"{second}=3.5", {first: 1.0, second: 3.5}, f"{first}: 1, {second}: 3.5", pairs),
    ):
        sentence = f"Class weights: {words}. They apply to predictions"
        assert sentence in ok(*fit, "--class-weight", option)
        assert load(path).class_weight == weights
        assert sentence in ok("show", path)
        assert json.loads(ok("show", path, "--json"))["class_weight"] == content
        assert json.loads(ok(*fit, "--class-weight", option, "--json"))["class_weight"] == content
    refused(*fit, "--class-weight", "nobody=3", match=r"nobody=3: 'nobody' .*class of")
    refused(*fit, "--class-weight", f"{first}=-3", match=rf"class_weight .*1e-09 to 1e\+09, got -3.*'{first}'")


# -- options and declarations ------------------------------------------------------------------------------------------

# The parameters that options set. All searchable ones can be set with `search --try` as well.
DECLARED = {
    "--epsilon": "epsilon",
    "--domain": "domain",
    "--class-weight": "class_weight",
    "--max-records-per-person": "max_records_per_group",
    "--delta": "delta",
    "--rounds": "n_rounds",
    "--learning-rate": "learning_rate",
    "--no-interactions": "interactions",
}
LIBRARY_ONLY = {"n_jobs", "random_state", "verbose"}  # a command has all cores, no seed, and a bar in a terminal
ESTIMATORS = (DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor)
PARAMETERS = {name: declared for estimator in ESTIMATORS for name, declared in parameters_of(estimator).items()}
DEFAULTS = {name: default for estimator in ESTIMATORS for name, default in estimator().get_params().items()}


def options_of(command):
    """Return the declaration and the default of each option of a command, by name."""
    signature = inspect.signature(command, eval_str=True).parameters.values()
    pairs = [(option, argument.default) for argument in signature for option in argument.annotation.__metadata__]
    # In an annotation, typer has the first name as default until it makes the option; arguments have none.
    names = [(option.default, *(option.param_decls or ())) for option, _ in pairs]
    return {name: pair for of_pair, pair in zip(names, pairs, strict=True) for name in of_pair}


@pytest.mark.parametrize(("command", "in_python"), [(fit, set(ForestParameters.__annotations__)), (search, set())])
def test_every_declared_parameter_can_be_set(command, in_python):
    """Parameters of forests adapt to epsilon and to private counts, so `fit` leaves them to `search` and to Python."""
    options = options_of(command)
    by_option = {name for option, name in DECLARED.items() if option in options}
    by_try = {name for name, declared in PARAMETERS.items() if declared.searchable and "--try" in options}
    assert set(PARAMETERS) - LIBRARY_ONLY - by_option - by_try == in_python


@pytest.mark.parametrize("command", [fit, search, plan])
def test_limits_and_defaults_of_options_are_those_declared(command):
    options = {DECLARED[name]: found for name, found in options_of(command).items() if name in DECLARED}
    assert {"epsilon", "domain", "max_records_per_group", "delta"} <= set(options)
    for name, (option, default) in options.items():
        if name == "interactions":
            assert (default, DEFAULTS[name]) == (False, True)
        elif default is not inspect.Parameter.empty:
            assert default in (None, DEFAULTS[name]), "an option that is not given leaves the default of the parameter"
        if name == "delta":
            assert float(option.show_default) == DEFAULTS[name]
        for limit, beyond in ((option.min, -1), (option.max, 1)):
            if limit is not None:
                PARAMETERS[name].check(limit, name)
                with pytest.raises(ValueError, match=rf"^{name} .*got {limit + beyond}"):
                    PARAMETERS[name].check(limit + beyond, name)


def test_search_options_cover_the_parameters_of_a_search_or_leave_them_to_python():
    settable = {"estimator", "param_distributions", "epsilon"}
    in_python = {"n_iter", "rule", "max_fits", "holdout", "refit"}  # a command tries all combinations, by default rules
    assert set(parameters_of(PrivateSearch)) - LIBRARY_ONLY == settable | in_python


@pytest.mark.parametrize(
    ("command", "function", "names"),
    [
        (score, private_score, ["epsilon", "confidence", "max_records"]),
        (plan, diprime.plan, ["repeats", "boost"]),
        (learn_domain, Domain.learn, ["delta"]),
        (new_budget, Budget, ["delta"]),
    ],
)
def test_defaults_of_commands_are_those_of_the_functions_they_call(command, function, names):
    options, arguments = inspect.signature(command).parameters, inspect.signature(function).parameters
    for name in names:
        assert options[name].default == arguments[{"max_records": "max_records_per_group"}.get(name, name)].default
