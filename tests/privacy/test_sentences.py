"""Nothing but people reads the sentences of the library: with nonsense in their place, everything else is the same."""

import json
import subprocess
import sys

import pytest

from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind, VoidReason

IDENTIFIERS = (ReleaseKind, Mechanism, BoundKind, VoidReason)

# Prints the numbers of models, files, reports, budgets and scores. With "nonsense", every string of several words has
# other words wherever it occurs; fields of formats, numbers and signs stay. A string occurs twice with different words.
PROGRAM = """
import ast, itertools, json, re, sys, warnings
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

task, folder, words = sys.argv[1], Path(sys.argv[2]), itertools.count()


def nonsense(text):
    def other(found):
        return "".join(chr(ord("a") + int(digit)) for digit in str(next(words))) + "zz"

    return re.sub("{[^}]*}|[A-Za-z]{2,}", lambda found: found[0] if found[0][0] == "{" else other(found), text)


class Sentences(ast.NodeTransformer):
    def visit_Expr(self, node):  # docstrings stay
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Constant(self, node):
        is_sentence = isinstance(node.value, str) and re.search("[a-z),;:] +[a-z]", node.value)
        return ast.copy_location(ast.Constant(nonsense(node.value)), node) if is_sentence else node


class Loader(SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compile(ast.fix_missing_locations(Sentences().visit(ast.parse(self.get_data(path)))), path, "exec")


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        found = super().find_spec(name, path, target) if name.startswith("diprime.") else None
        if found is not None and "kernels" not in name and isinstance(found.loader, SourceFileLoader):
            found.loader = Loader(found.loader.name, found.loader.path)
            return found
        return None


if sys.argv[3] == "nonsense":
    sys.meta_path.insert(0, Finder)
warnings.simplefilter("ignore")
from diprime import Budget, BudgetError, Domain, Forest, PrivateSearch, load, merge, plan, private_score
from diprime.inspection.views import read_tree
from diprime.model.estimates import charged_noise_variance
from diprime.planning import BoostingShape
from diprime.privacy.ledger import Ledger
from diprime.report import render
from tests.small_data import DOMAINS, ESTIMATORS, PAPER, boost, fit, make


def numbers_of_ledger(ledger):
    data = [[str(cost) for cost in (ledger.epsilon, ledger.total, ledger.total_delta, ledger.strict_total)]]
    for c in ledger.charges:
        names = c.kind.value, c.mechanism.value
        data.append([*names, c.sensitivity.to_dict(), str(c.total), c.n_releases, c.level, c.n])
    counts = len(ledger.reasons_not_private), len(ledger.notes), len(ledger.study_charges)
    return [data, [w.value for w in ledger.voided_by], counts, *map(numbers_of_ledger, ledger.merged)]


def numbers_of(model, X):
    model.save(folder / "model")
    loaded = load(folder / "model")
    assert loaded.privacy_ == Ledger.from_json(model.privacy_.to_json()) == model.privacy_
    ledger, is_forest = loaded.privacy_, isinstance(loaded.forest_, Forest)
    noise = charged_noise_variance(ledger, loaded.domain_.layout) if is_forest else loaded.forest_.records_noise
    if not is_forest and not ledger.merged:
        noise = BoostingShape.of(loaded).n_curves
    has_trees = is_forest or not loaded.forest_.steps.is_curve.all()
    text = re.sub("(?s)<(style|script).*?</.1>|<[^>]*>".replace(".1", chr(92) + "1"), " ", render(loaded))
    return [
        numbers_of_ledger(ledger),
        loaded.predict(X).tolist(),
        sorted(loaded.importances().to_dict()),
        loaded.explain(X[:5]).contributions.tolist(),
        repr((read_tree(loaded, 0).count_noise if has_trees else None, noise)),
        re.findall("[0-9][0-9.,e-]*", re.sub("[0-9a-f]{64}", "digest", text)),
    ]


X, y = make(task, 200)


def fitted(fit_or_boost, seed, **parameters):
    return fit_or_boost(task, X, y, random_state=seed, **parameters)


forests = [fitted(fit, seed, n_estimators=2) for seed in (1, 2)]
learnt = Domain.learn(X, y, epsilon=9, target=DOMAINS[task].target, random_state=1)
settings = {"max_depth": [1, 2]}
search = PrivateSearch(ESTIMATORS[task](domain=DOMAINS[task], n_jobs=1), settings, epsilon=20, random_state=1)
models = {
    "forest": forests[0],
    "boosted": fitted(boost, 1, n_rounds=3),
    "published": fitted(fit, 1, method="diprime", estimators=PAPER, n_estimators=2),
    "merged": merge(forests, disjoint=True),
    "of a learnt domain": fitted(fit, 1, domain=learnt),
    "found": search.fit(X, y).best_estimator_,
}
found = {name: numbers_of(model, X) for name, model in models.items()}
score = private_score(forests[0], X, y, 1.0, random_state=1)
found["score"] = [repr(list(score.estimates.values())), numbers_of_ledger(score.ledger)]
with Budget.create(folder / "budget", 3) as budget:
    model = fit(task, X, y)
    try:
        fitted(fit, 1)
    except BudgetError as error:
        found["refusal"] = type(error).__name__
left = Budget.open(folder / "budget").remaining_epsilon()
found["budget"] = [str(left), len(budget.entries), len(model.privacy_.studies)]
found["plan"] = str(plan(DOMAINS[task], 99, 1.0, repeats=1).ledger.total)
print(json.dumps([str(model.privacy_), found]))
"""


def run(*arguments):
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


@pytest.mark.parametrize("task", [pytest.param("classification", marks=pytest.mark.audit), "regression"])
def test_files_reports_budgets_and_scores_do_not_depend_on_sentences(task, tmp_path):
    folders = [tmp_path / name for name in ("plain", "nonsense")]
    for folder in folders:
        folder.mkdir()
    (text, expected), (nonsense, found) = (run(task, folder, folder.name) for folder in folders)
    assert "Privacy ledger" in text
    assert not {"Privacy", "added", "removed"} & set(nonsense.split()), "or the words were not replaced"
    for name, numbers in expected.items():
        assert found[name] == numbers, name


def test_every_identifier_has_its_own_text():
    for kind in IDENTIFIERS:
        assert len({(str(member), member.name.startswith(("L1", "COST_RANGE"))) for member in kind}) == len(kind)
    for kind in (ReleaseKind, Mechanism, VoidReason):
        assert [member.value for member in kind] == [member.name.lower().replace("_", "-") for member in kind]


def test_mechanisms_are_calibrated_to_bounds_of_eight_kinds():
    given = {Bound(kind, 3, 7).calibration.kind for kind in BoundKind}
    of_mechanisms = {BoundKind.L1, BoundKind.SQUARED_L2, BoundKind.COST_RANGE, BoundKind.REPETITIONS}
    assert given == of_mechanisms | {BoundKind.LOCAL_SENSITIVITY, BoundKind.FITS, BoundKind.MODELS, BoundKind.NONE}
