"""A privacy officer signs a model, and its users notice a file that somebody has changed since.

Needs ``pip install 'diprime[sign]'``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import diprime
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
from diprime.signing import SignatureError, new_key, sign_model


def main() -> None:
    """Fit, sign, load; then forge a ledger, and try to load it."""
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, 5000)
    insured = np.where(rng.random(5000) < age / 100, "yes", "no")
    domain = Domain({"age": Numeric(18, 90)}, target=Categorical(["no", "yes"]))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "insured.diprime"
        DiPriMeClassifier(epsilon=3, domain=domain).fit(age[:, None], insured).save(file)

        # The officer, who has read the ledger. The public key is published where everybody trusts it to be hers.
        public_key = new_key(Path(folder) / "officer.key")
        sign_model(file, Path(folder) / "officer.key")

        # A user, who loads the file only if it was signed.
        model = diprime.load(file, public_key=public_key)
        print(f"Signed: {str(model.privacy_).splitlines()[0]}")

        # Somebody else, with a sound file whose ledger looks better.
        DiPriMeClassifier(epsilon=0.1, domain=domain).fit(age[:100, None], insured[:100]).save(file)
        print(f"Now it says: {str(diprime.load(file).privacy_).splitlines()[0]}")
        try:
            diprime.load(file, public_key=public_key)
        except SignatureError as error:
            print(str(error).replace(folder, "…"))


if __name__ == "__main__":
    main()
