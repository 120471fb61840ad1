"""The synthetic people of the demonstration fit its domain."""

import numpy as np

from diprime.cli.demo import MISSING_SHARE, PEOPLE_DOMAIN, synthetic_people
from diprime.domain import MISSING, OTHER, Domain

DOMAIN = Domain.from_toml(PEOPLE_DOMAIN)


def test_people_are_inside_the_domain():
    people = synthetic_people(5000, 1)
    codes = DOMAIN.encode(people.select(DOMAIN.encoded_feature_names))
    assert not (codes[:, DOMAIN.is_categorical] == OTHER).any()
    missing = dict(zip(DOMAIN.encoded_feature_names, (codes == MISSING).mean(axis=0), strict=True))
    assert 0 < missing.pop("savings") < 2 * MISSING_SHARE
    assert not any(missing.values())
    shares = np.bincount(DOMAIN.encode_target(people[DOMAIN.target_name])) / len(people)
    assert shares.min() > 0.1
