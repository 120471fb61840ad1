"""The base class of all private estimators: domain, input validation, ledger and warnings."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from diprime._util.threads import Threads
from diprime.domain import Categorical, Domain, Origin, RowReader, Task
from diprime.domain.batches import CheckedBatches, check_lengths
from diprime.domain.learning import Batches, LearningPlan
from diprime.domain.persons import PersonIndex, has_groups
from diprime.engines.batches import GROUPS_WITH_SCRATCH, encode_batches, write_batches
from diprime.engines.memory import Scratch
from diprime.engines.partition import LocalPartitions, Partition, Partitions
from diprime.engines.persons import UsedRecords
from diprime.estimators.frames import GROUPS_ON_CLUSTER, DistributedTable, distributed_table, on_frames
from diprime.estimators.parameters import DOMAIN, N_JOBS, NOT_OF_THE_MODEL, RANDOM_STATE, VERBOSE
from diprime.privacy import spending
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.measures import PrivacyLoss, PureEpsilon, rounded_text, share_of
from diprime.privacy.randomness import RandomSource
from diprime.privacy.spending import Earlier, Spendable, Unit

N_DIMENSIONS = 2  # of a table
DOMAIN_SHARE = Fraction(1, 10)
"""The share of epsilon, and of delta, that learns what is open in a domain."""
OTHER_UNIT = {
    "person": "The domain was learnt from single records, which does not protect persons; give groups to Domain.learn.",
    "record": "The domain was learnt from persons, and the fit takes every record for a person; give groups to fit.",
}

_Model = TypeVar("_Model", bound="PrivateEstimator")


def sorted_classes(domain: Domain) -> tuple[list[int], npt.NDArray[Any]]:
    """Return the sorting order of the domain's classes, and the sorted classes.

    Classes that do not compare keep the order of the domain. The array has the type of the classes, or ``object`` if
    they have no type in common.
    """
    levels: Sequence[Any] = domain.target.levels  # type: ignore[union-attr]
    try:
        order = sorted(range(len(levels)), key=levels.__getitem__)
    except TypeError:  # such as text and numbers
        order = list(range(len(levels)))
    classes = [levels[i] for i in order]
    kinds = {bool if isinstance(v, bool) else numbers.Real if isinstance(v, numbers.Real) else type(v) for v in classes}
    if len(kinds) == 1 and kinds <= {bool, numbers.Real, str}:
        return order, np.array(classes)
    objects = np.empty(len(classes), dtype=object)
    objects[:] = classes
    return order, objects


class PrivateClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """What all private classifiers share: the classes of the domain, and logarithms of probabilities."""

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        super()._set_fitted(domain, ledger, forest)
        self.classes_ = sorted_classes(domain)[1]

    @on_frames
    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the logarithm of the probability of each class; see :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class PrivateEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """The base class of all private estimators, whatever they learn.

    It resolves the domain, validates and encodes the input, opens the ledger and warns where a fit is not private. A
    subclass has the parameters ``epsilon``, ``domain``, ``n_jobs`` and ``random_state``, and implements the abstract
    methods.
    """

    _task: Task
    _takes_partitions = False
    """Whether a fit asks for sums only, so that rows can be anywhere."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags

    @abstractmethod
    def _check_settings(self, n_features: int) -> Any:
        """Check the parameters and return the settings, among them ``epsilon`` and ``accounting`` of the ledger."""

    @abstractmethod
    def _plan(self, settings: Any, domain: Domain) -> Any:
        """Plan the releases, which must add up to epsilon. No row has been read, unless for a domain to infer."""

    def _delta(self, settings: Any) -> Fraction:
        """Return the delta of the ledger: zero, unless releases have Gaussian noise."""
        return Fraction(0)

    def _loss(self, settings: Any) -> PrivacyLoss:
        """Return what the whole fit costs, as it is charged to the budget of a study."""
        return PureEpsilon(settings.epsilon).loss(1)

    def _max_records(self) -> int:
        """Return how many records of a person are used at most."""
        return 1

    def _check_groups(self, *, given: bool) -> None:
        """Raise an error if groups are given to an estimator that takes none, or are lacking."""
        if given:
            raise ValueError(f"{type(self).__name__} does not take groups: it protects single records, not persons.")

    @abstractmethod
    def _prepare(self, partitions: Partitions, domain: Domain, settings: Any, threads: Threads) -> Any:
        """Return what learns from the records, with all the room that it needs; nothing is released or paid for yet."""

    @abstractmethod
    def _learn(
        self, prepared: Any, domain: Domain, settings: Any, plan: Any, ledger: Ledger, source: RandomSource
    ) -> Any:
        """Pay for each release of the plan before it is made, and return the forest."""

    # -- the budget of a study -----------------------------------------------------------------------------------------

    _budgets: tuple[Spendable, ...] = ()
    """The budgets that were in force where this object was pickled or copied."""

    def __getstate__(self) -> Any:
        budgets = spending.in_force(self._budgets)
        return {**super().__getstate__(), "_budgets": budgets} if budgets else super().__getstate__()

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        if self._budgets:
            clone._budgets = self._budgets
        return clone

    def _carried(self) -> tuple[Spendable, ...]:
        """Return the budgets that this object carries."""
        return self._budgets

    def _waivers(self, origin: Origin) -> list[str]:
        """Return why a fit with these parameters is not private although its charges add up."""
        waivers = [] if origin.ledger is None else list(origin.ledger.waivers)
        if origin.objection is not None:
            waivers.append(origin.objection)
        if self.random_state is not None:
            waivers.append("random_state was set, so whoever knows it can take the noise off the model.")
        return waivers

    def _refuse_waived(self, budgets: tuple[Spendable, ...]) -> None:
        """Raise an error if a budget is in force and the fit would not be private; called before data are read."""
        origin = Origin("read") if isinstance(self.domain, str) else getattr(self.domain, "origin", Origin())
        spending.refuse_waived(self._waivers(origin), f"a fit of {type(self).__name__}", budgets)

    def _check_budget(
        self, settings: Any, of_domain: Earlier, unit: Unit | None, budgets: tuple[Spendable, ...]
    ) -> None:
        """Raise an error if a budget is in force and does not cover the fit; called before data are read."""
        if settings.accounting == "paper":
            reason = "accounting='paper' counts less than is spent."
            spending.refuse_waived([reason], f"a fit of {type(self).__name__}", budgets)
        spending.check(self._loss(settings), self._words(settings), budgets, unit=unit, earlier=of_domain)

    @staticmethod
    def _cost_of(domain: Domain) -> Earlier:
        """Return what a domain has cost, and who has counted it."""
        ledger = domain.origin.ledger
        return spending.NOTHING if ledger is None else Earlier(ledger.loss, ledger.studies)

    def _words(self, settings: Any) -> str:
        """Return what the budget's log says about a fit: public numbers only."""
        delta = self._delta(settings)
        terms = f"epsilon = {rounded_text(settings.epsilon)}"
        return f"{type(self).__name__} with {terms}" + (f", delta = {rounded_text(delta)}" if delta else "")

    # -- input ---------------------------------------------------------------------------------------------------------

    def _resolve_domain(self, X: Any, y: Any) -> Domain:
        if self.domain is None:
            raise ValueError(
                f"{type(self).__name__} needs to know what is public about the data: pass "
                "domain=Domain({'age': Numeric(17, 90), …}, target=…), or domain='infer' to read it from the data, "
                "which is not private."
            )
        domain = DOMAIN.check(self.domain)
        if domain == "infer":
            return self._infer_domain(X, y)
        if domain.task != self._task:
            wanted = "Categorical" if self._task == "classification" else "Numeric"
            raise ValueError(
                f"{type(self).__name__} needs a domain whose target is {wanted}(…), "
                f"got {type(domain.target).__name__}(…)."
            )
        return domain

    def _infer_domain(self, X: Any, y: Any) -> Domain:
        domain = Domain.infer(X, y, self._task)
        if isinstance(domain.target, Categorical) and any(
            isinstance(level, float) and not level.is_integer() for level in domain.target.levels
        ):
            raise ValueError("Unknown label type: y is continuous; give classes, or list them in a Domain.")
        return domain

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        """Let scikit-learn set or check ``n_features_in_`` and ``feature_names_in_``, in the order of the domain."""
        columns: Any = np.empty((0, len(domain.columns)))
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):  # its names are enough, so no rows are passed
            are_known = set(frame.columns) == set(domain.columns)  # pandas may have names that are numbers
            names = domain.columns if are_known else []
            columns = (frame.head(0).select(*names) if names else frame.head(0)).to_native()
        validate_data(self, columns, reset=reset, skip_check_array=True)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, refused: dict[str, Any], groups: Any = None) -> None:
        for name, value in refused.items():
            if name == "groups":
                self._check_groups(given=value is not None)
            elif name != "sample_weight":
                raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}")
            elif value is not None:
                raise ValueError(
                    f"{type(self).__name__} does not take sample_weight: the noise is calibrated to one record "
                    "counting once, and a weight would break the guarantee of its epsilon."
                )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if isinstance(y, np.ndarray) and y.shape[1:] == (1,):
            message = "A column-vector y was passed when a 1d array was expected; give for example y.ravel()."
            warnings.warn(message, DataConversionWarning, stacklevel=3)
        self._check_groups(given=groups is not None)
        on_cluster = distributed_table(X, y)
        if on_cluster is not None:
            if groups is not None:
                raise ValueError(GROUPS_ON_CLUSTER)
            self._fit_distributed(on_cluster)
            return
        budgets = spending.in_force(self._carried())  # once: a block that is left meanwhile has to pay all the same
        self._refuse_waived(budgets)
        domain = self._resolve_domain(X, y)
        settings = self._check_settings(domain.n_features)
        source = RANDOM_STATE.check(self.random_state)
        of_persons = groups is not None
        learning, settings = self._divide(domain, settings, "person" if of_persons else "record", budgets)
        batch = (X, y, groups) if of_persons else (X, y)
        domain = self._closed(domain, learning, lambda: [batch], source, budgets, of_persons=of_persons)
        if learning is not None:  # a column of dates has several features
            settings = self._without(learning, self._check_settings(domain.n_features))
        plan = self._plan(settings, domain)
        rows = domain.reader(X)
        target = domain.encode_target(y, n_threads=N_JOBS.check(self.n_jobs))
        persons = None if groups is None else PersonIndex().encode(groups)
        check_lengths(rows.n_rows, target, persons)
        partitions = LocalPartitions([Partition(rows, UsedRecords(target, persons=persons))])
        self._fit_encoded(partitions, domain, settings, plan, source, budgets, stacklevel=4)
        self._name_columns(X, domain, reset=True)

    def fit_batches(
        self: _Model, batches: Iterable[tuple[Any, ...]], *, scratch: str | os.PathLike[str] | None = None
    ) -> _Model:
        """Fit to data that need not fit in memory, such as files that are read in chunks.

        The model equals the one that `fit` learns from all batches together. Each batch is encoded when it arrives,
        in one byte for each value, and is not kept. The fit needs about twice the memory of the encoded data or, with
        ``scratch``, as much room on a disk, and memory for a few batches only.

        Parameters
        ----------
        batches : iterable of pairs (X, y), or of triples (X, y, groups)
            Records, targets and the persons of the records, as for `fit`. The records of a person may be in several
            batches. The iterable is read once, so a generator will do, unless the domain is open: what is learnt of it
            needs further passes. The domain cannot be inferred. Without any batch nothing tells whether there are
            persons, unless ``max_records_per_group`` is above 1: give an empty batch, with groups.
        scratch : str or path, optional
            A folder for the encoded data, on a disk with enough room. They are private: the files there have no name,
            nobody else can open them, and they are gone when the fit or the process ends. Without it, the encoded data
            are kept in memory. With it, there can be no groups.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        if isinstance(self.domain, str):
            raise ValueError("fit_batches needs a Domain: it could be inferred only from all of the data at once.")
        memory = None if scratch is None else self._open_scratch(Path(scratch))
        n_threads = N_JOBS.check(self.n_jobs)
        checked = CheckedBatches(batches)

        def encode(domain: Domain) -> Partitions:
            named = self._with_named_columns(checked, domain)
            if memory is not None:
                return write_batches(named, domain, n_threads, memory)
            return encode_batches(named, domain, n_threads, of_persons=self._max_records() > 1)

        self._fit_partitions(checked, encode, persons_ok=memory is None)
        return self

    def _fit_partitions(
        self,
        batches: CheckedBatches,
        encode: Callable[[Domain], Partitions],
        *,
        persons_ok: bool = False,
        stacklevel: int = 3,
    ) -> None:
        """Fit to the partitions that are made when the domain is known.

        Parameters
        ----------
        batches : CheckedBatches
            All records, from which an open domain is learnt; not read otherwise.
        encode : callable
            Given the domain, returns all records in partitions.
        persons_ok : bool, default=False
            Whether there can be groups.
        stacklevel : int, default=3
            Whose line warnings name, as for :func:`warnings.warn` in this method.
        """
        budgets = spending.in_force(self._carried())
        self._refuse_waived(budgets)
        domain = self._resolve_domain(None, None)
        settings = self._check_settings(domain.n_features)
        source = RANDOM_STATE.check(self.random_state)
        if domain.is_open and batches.once:
            raise ValueError(
                "The domain is open, and learning it reads all batches more than once; give a list, or an object whose "
                "__iter__ starts anew, or learn the domain first, with Domain.learn."
            )
        # Whether there are persons, the first batch tells; it is read only if the domain is open, or for an error.
        learning, settings = self._divide(domain, settings, None, budgets)
        of_persons = self._max_records() > 1
        refused = of_persons and not persons_ok
        for batch in islice(batches, 1) if domain.is_open or refused else ():
            self._check_groups(given=has_groups(batch))
            of_persons |= has_groups(batch)
        if of_persons and not persons_ok:
            raise ValueError(GROUPS_WITH_SCRATCH)
        domain = self._closed(domain, learning, lambda: batches, source, budgets, of_persons=of_persons)
        if learning is not None:
            settings = self._without(learning, self._check_settings(domain.n_features))
        plan = self._plan(settings, domain)
        self._name_columns(None, domain, reset=True)
        self._fit_encoded(encode(domain), domain, settings, plan, source, budgets, stacklevel=stacklevel + 1)

    def _with_named_columns(self, batches: Iterable[tuple[Any, ...]], domain: Domain) -> Iterator[tuple[Any, ...]]:
        """Yield batches whose columns have the same names."""
        for i, batch in enumerate(batches):
            self._check_groups(given=has_groups(batch))
            self._name_columns(batch[0], domain, reset=i == 0)
            yield batch

    def _fit_distributed(self, table: DistributedTable, *, stacklevel: int = 4) -> None:
        """Fit to records on a cluster, each of which is a person of its own."""
        name = type(self).__name__
        if not self._takes_partitions:
            raise ValueError(f"{name} needs all of its rows in this process; give tables in memory, not on a cluster.")
        if isinstance(self.domain, str):
            raise ValueError(f"{name} needs a Domain for tables on a cluster: inferring it takes all of the data.")
        domain = self._resolve_domain(None, None)
        if domain.is_open:
            raise ValueError(
                "The domain is open, and learning it on a cluster is not supported; learn it first in one process, "
                "with Domain.learn, or declare all of its ranges and levels."
            )
        shown = VERBOSE.check(self.verbose)

        with ExitStack() as until_fitted:

            def encode(domain: Domain) -> Partitions:
                return until_fitted.enter_context(table.partitions(domain, shown=shown))

            self._fit_partitions(CheckedBatches(()), encode, stacklevel=stacklevel + 1)
        self._name_columns(table.no_rows, domain, reset=True)

    def _open_scratch(self, folder: Path) -> Scratch:
        """Return scratch files in a folder, for a fit that can have its rows there."""
        if not self._takes_partitions:
            raise ValueError(f"{type(self).__name__} needs all of its rows in memory; leave out scratch.")
        return Scratch(folder)

    def _divide(
        self, domain: Domain, settings: Any, unit: Unit | None, budgets: tuple[Spendable, ...]
    ) -> tuple[LearningPlan | None, Any]:
        """Return how an open domain is learnt, and settings that have the rest of the budget, before data are read."""
        learning = None
        domain.check_size()  # before anything is paid for
        if domain.is_open:
            budget = share_of(settings.epsilon, DOMAIN_SHARE), self._delta(settings) * DOMAIN_SHARE
            learning = domain.learning_plan(*budget)
            settings = self._without(learning, settings)
        of_domain = self._cost_of(domain) if learning is None else Earlier(learning.loss)
        self._check_budget(settings, of_domain, unit, budgets)
        return learning, settings

    @staticmethod
    def _without(learning: LearningPlan, settings: Any) -> Any:
        """Return settings that have the budget that learning a domain leaves."""
        rest = {"epsilon": settings.epsilon - learning.epsilon} if settings.epsilon != math.inf else {}
        if learning.delta:
            rest["delta"] = settings.delta - learning.delta
        return replace(settings, **rest)

    def _closed(
        self,
        domain: Domain,
        learning: LearningPlan | None,
        batches: Batches,
        source: RandomSource,
        budgets: tuple[Spendable, ...],
        *,
        of_persons: bool,
    ) -> Domain:
        """Return the domain, with what is open in it learnt from the data."""
        if learning is None:
            return domain
        return domain.closed(batches, learning, source, budgets, of_persons=of_persons)

    def _fit_encoded(
        self,
        partitions: Partitions,
        domain: Domain,
        settings: Any,
        plan: Any,
        source: RandomSource,
        budgets: tuple[Spendable, ...],
        *,
        stacklevel: int,
    ) -> None:
        """Fit to encoded records. All that a fit releases passes through here, but for what it learns of its domain."""
        max_records = self._max_records()
        unit_records = max_records if partitions.of_persons else None
        ledger = Ledger(settings.epsilon, settings.accounting, delta=self._delta(settings), unit_records=unit_records)
        if domain.origin.ledger is not None:
            if domain.origin.ledger.unit != ledger.unit:
                raise ValueError(OTHER_UNIT[ledger.unit])
            ledger.include(domain.origin.ledger)
        ledger.remarks += domain.origin.remarks
        ledger.waivers = self._waivers(domain.origin)
        for reason in ledger.waivers:
            warnings.warn(f"This fit is not private: {reason}", PrivacyWarning, stacklevel=stacklevel)
        if settings.accounting == "paper":
            message = (
                "This fit is not private: accounting='paper' counts less than is spent; it is for comparison with the "
                "paper's numbers only."
            )
            warnings.warn(message, PrivacyWarning, stacklevel=stacklevel)
        loss, of_domain = self._loss(settings), self._cost_of(domain)
        if partitions.of_persons:
            partitions = partitions.choose(max_records, source)
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            prepared = self._prepare(partitions, domain, settings, threads)  # a fit that fails here costs nothing
            ledger.studies = spending.charge(
                loss, self._words(settings), budgets, unit=ledger.unit, waivers=ledger.waivers, earlier=of_domain
            )
            forest = self._learn(prepared, domain, settings, plan, ledger, source)
        if ledger.total != ledger.epsilon:
            raise AssertionError(f"The ledger's total, {ledger.total}, is not epsilon, {ledger.epsilon}.")
        if ledger.loss != of_domain.loss + loss:
            raise AssertionError(f"The ledger's loss, {ledger.loss}, is not what the study was charged.")
        self._set_fitted(domain, ledger, forest)

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        self.domain_ = domain
        self.privacy_ = ledger
        self.forest_ = forest
        self._remember_parameters()

    def _remember_parameters(self) -> None:
        """Keep the parameters of the fit, which files and reports tell whatever they are changed to later."""
        parameters = self.get_params(deep=False)
        self.fitted_params_ = {
            name: dict(value) if isinstance(value, Mapping) else value  # which could be changed in place
            for name, value in parameters.items()
            if name not in NOT_OF_THE_MODEL
        }

    # -- use -----------------------------------------------------------------------------------------------------------

    def _reader(self, X: Any) -> RowReader:
        check_is_fitted(self)
        domain = self.domain_
        n_columns = len(domain.columns)
        if isinstance(X, np.ndarray) and X.ndim == N_DIMENSIONS and X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {n_columns} features as input."
            )
        rows = domain.reader(X)
        self._name_columns(X, domain, reset=False)
        return rows
