"""No way round: a model whose domain was read from the data is not private, however the domain reached the fit."""

import copy
import pickle
import warnings
from dataclasses import replace

import pytest
from sklearn.base import clone

from diprime import Domain, PrivacyWarning, load, merge, sources
from diprime.estimators.boosting import DiPriMeBoostingClassifier
from diprime.estimators.forest import DiPriMeClassifier
from diprime.paper import DPRandomForestClassifier
from diprime.privacy.charges import VoidReason
from diprime.report import render
from tests.small_data import make

ESTIMATORS = {
    "forest": lambda domain: DiPriMeClassifier(1.0, domain, n_estimators=2, max_depth=2),
    "boosting": lambda domain: DiPriMeBoostingClassifier(1.0, domain, n_rounds=5),
    "baseline": lambda domain: DPRandomForestClassifier(1.0, domain, n_estimators=2, max_depth=2),
}
X, Y = make("classification", 200)
READ = Domain.infer(X, Y, "classification")


def quiet(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return fit()


def domain_of_a_file(folder):
    model = quiet(lambda: ESTIMATORS["forest"](READ).fit(X, Y))
    model.save(folder / "m")
    return load(folder / "m").domain_


def domain_of_a_merged_model(folder):
    declared = ESTIMATORS["forest"](READ.reviewed("Jane Doe")).fit(X, Y)
    read = quiet(lambda: ESTIMATORS["forest"](READ).fit(X, Y))
    return merge([declared, read], disjoint=True).domain_


WAYS = {
    "infer": lambda folder: READ,
    "draft": lambda folder: Domain.from_toml(READ.to_toml()),
    "dict": lambda folder: Domain.from_dict(READ.to_dict()),
    "pickle": lambda folder: pickle.loads(pickle.dumps(READ)),
    "copy": lambda folder: copy.deepcopy(READ),
    "derived": lambda folder: replace(READ, target_name="income"),
    "refitted": lambda folder: quiet(lambda: ESTIMATORS["forest"]("infer").fit(X, Y)).domain_,
    "loaded": domain_of_a_file,
    "merged": domain_of_a_merged_model,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_inferred_domain_voids_the_guarantee(kind, way, tmp_path):
    model = clone(ESTIMATORS[kind](WAYS[way](tmp_path)))
    with pytest.warns(PrivacyWarning, match=r"domain .*inferred"):
        model.fit(X, Y)
    assert not model.privacy_.is_private
    assert VoidReason.INFERRED_DOMAIN in model.privacy_.voided_by
    with pytest.warns(PrivacyWarning, match=r"domain .*inferred"):
        assert not model.fit(sources.batches([(X, Y)])).privacy_.is_private


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_reviewed_domain_is_declared_by_its_reviewer(kind):
    model = ESTIMATORS[kind](READ.reviewed("Jane Doe")).fit(X, Y)
    assert model.privacy_.is_private
    assert model.privacy_.notes == ("Jane Doe reviewed the domain and declares it public knowledge.",)
    assert model.privacy_.notes[0] in str(model.privacy_)
    assert type(model.privacy_).from_json(model.privacy_.to_json()) == model.privacy_


@pytest.mark.parametrize("kind", ["forest", "boosting"])
def test_files_reports_and_merged_models_name_the_reviewer(kind, tmp_path):
    model = ESTIMATORS[kind](READ.reviewed("Jane Doe")).fit(X, Y)
    model.save(tmp_path / "m")
    for part in (
        load(tmp_path / "m"),
        merge([model, ESTIMATORS[kind](READ.reviewed("John")).fit(X, Y)], disjoint=True),
    ):
        page = render(part)
        assert part.privacy_.is_private
        assert "declared, reviewed by Jane Doe" in page
        assert "Jane Doe reviewed the domain and" in page
        assert "Declared facts" in page
