"""The suite: a named, ordered set of cases with the settings to score them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

from msgspec import UNSET

from trivium.errors import SuiteError
from trivium.keywords import keywords
from trivium.suites.case import COMPLEXITIES, Case, Cases, CaseTuple, CaseView
from trivium.suites.digest import digest_of
from trivium.suites.selection import case_filter, group_of, seeded_sample, split_by_group
from trivium.suites.settings import SettingKeywords, Settings

SuiteSource = str | PathLike[str] | Mapping[str, Any] | Iterable[Case | Mapping[str, Any]] | Any
"""Sources of a suite, see ``Suite.load``; ``Any`` covers the data frames of several libraries."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Suite:
    """A named, ordered set of cases with the settings to score them. Immutable.

    Attributes:
        name: Name in reports.
        cases: At least one case; mappings with the keys of a case are converted.
        settings: How the suite is run and scored.
        description: Purpose of the suite.
        notes: What was left out when the cases were read; shown in reports.
        source: File of the suite, for messages.
    """

    name: str
    cases: Sequence[Case]
    settings: Settings = field(default_factory=Settings)
    description: str | None = None
    notes: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        from trivium.suites.selection import check_groups, checked_cases
        from trivium.suites.settings_loader import with_changes
        from trivium.suites.simulated_users import with_users

        source = f'suite "{self.name}"'
        object.__setattr__(self, "settings", with_changes(self.settings, {}, source=source))
        cases = self.cases if isinstance(self.cases, Cases) else checked_cases(self.cases, source=source)
        object.__setattr__(self, "cases", with_users(cases, self.settings.user, source))
        if not len(self.cases):
            raise SuiteError(source, "holds no case")
        check_groups(self.cases, self.settings.group, source)

    @classmethod
    @keywords(UNSET)
    def load(
        cls,
        source: SuiteSource,
        *,
        name: str | None = None,
        description: str | None = None,
        config: str | Path | None = None,
        **settings: Unpack[SettingKeywords],
    ) -> Self:
        """Load a suite from a file, a folder or Python objects.

        Settings given here replace those of the file. ``tools``, ``messages``, ``judge``, ``composite`` and
        ``limits`` can be mappings of only the keys that change.

        Args:
            source: A suite file (.yaml, .yml, .json, .toml), a file of cases only (.jsonl, .csv, .parquet,
                .json, .yaml), a folder of .jsonl, .csv and .parquet files or a pattern such as
                ``cases/*.jsonl``, or another format with its prefix, such as ``peerread:FOLDER``. Also a list
                of cases (:class:`Case`, or mappings with the keys of a case), a mapping with the keys of a
                suite file, or a data frame of pandas or polars, an Arrow table or a data set with one case
                per row (see :meth:`from_dataset`). Cases without an id are numbered, in memory from 0 and in
                files from 1.
            name: Name of the suite in reports.
            description: Purpose of the suite.
            config: A file of settings, such as a config_eval.json; settings given here replace those in it.
            **settings: See :class:`~trivium.suites.settings.SettingKeywords`.

        Raises:
            SuiteError: With every mistake found.
        """
        from trivium.suites.files.suite_files import load_suite

        if isinstance(source, Suite):
            what = "is a suite already: with_settings gives one with other settings"
            raise SuiteError(f'suite "{source.name}"', what)
        texts = {"name": name, "description": description, "config": config}
        return load_suite(cls, source, _without(UNSET, settings) | _without(None, texts))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, folder: Path = Path(), source: str = "suite") -> Self:
        """Make a suite from the keys of a suite file.

        Args:
            raw: The keys; see ``trivium schema``.
            folder: Base folder of relative paths.
            source: Name of the suite in messages.
        """
        from trivium.suites.files.suite_files import suite_of

        return suite_of(cls, raw, folder=folder, source=source)

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        *,
        columns: Mapping[str, str] | None = None,
        name: str | None = None,
        **settings: Unpack[SettingKeywords],
    ) -> Self:
        """Make a suite from a data set in memory.

        Args:
            dataset: A ``datasets.Dataset`` of Hugging Face, any other iterable of mappings, or a
                ``pydantic_evals.Dataset``.
            columns: Column for each of ``id``, ``input``, ``references``, ``source``, ``group``, ``tags`` and
                ``complexity``; fields that are not given are found by common column names.
            name: Name of the suite in reports.
            settings: Settings by name, see :meth:`with_settings`.

        Raises:
            SuiteError: With every mistake found.
        """
        from trivium.suites.sources.datasets import read_dataset

        found = read_dataset(dataset, columns=columns or {}, name=name)
        suite = cls(name=name or found.name, cases=found.cases)
        return suite.with_settings(**{**found.settings, **settings})

    def save(self, path: str | Path) -> None:
        """Write the suite to a file in the format of its extension.

        .yaml, .yml, .json and .toml contain everything; .jsonl, .csv and .parquet only the cases.
        """
        from trivium.suites.files.suite_files import save_suite

        save_suite(Path(path), self.cases, self.settings, name=self.name, description=self.description)

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Suite):
            return NotImplemented
        mine = (self.name, self.description, self.settings, self.digest)
        return mine == (other.name, other.description, other.settings, other.digest)

    def __hash__(self) -> int:
        return hash((self.name, self.digest))

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self)} case{'' if len(self) == 1 else 's'})"

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""
        return self._cases.position(id)

    def case(self, id: str) -> Case:  # noqa: A002
        """Return the case with an id.

        Raises:
            KeyError: If there is no such case.
        """
        position = self.position(id)
        if position is None:
            raise KeyError(id)
        return self.cases[position]

    def group_of(self, case: Case) -> str:
        """Return the cluster of a case, according to ``settings.group`` (default: a cluster of its own)."""
        group = group_of(case, self.settings.group)
        if group is None:
            key = self.settings.group
            raise SuiteError(f'suite "{self.name}"', f'case "{case.id}" has no {key} to be grouped by')
        return group

    @cached_property
    def tags(self) -> dict[str, tuple[int, ...]]:
        """Indices of the cases with each tag; tags in alphabetical order."""
        found: dict[str, list[int]] = {}
        for index, case in enumerate(self):
            for tag in dict.fromkeys(case.tags):
                found.setdefault(tag, []).append(index)
        return {tag: tuple(found[tag]) for tag in sorted(found)}

    def complexity_distribution(self) -> dict[str, int]:
        """Count the cases of each complexity that occurs, simplest first."""
        counts = dict.fromkeys(COMPLEXITIES, 0)
        for case in self:
            counts[case.complexity] += 1
        return {str(complexity): count for complexity, count in counts.items() if count}

    def filter(
        self,
        *,
        tag: str | Iterable[str] | None = None,
        complexity: str | Iterable[str] | None = None,
        where: Callable[[Case], bool] | None = None,
        **fields: Any,
    ) -> Self:
        """Return a suite of the cases that meet every given condition.

        Args:
            tag: A tag, or several of which a case must have at least one.
            complexity: A complexity, or several of which a case must have one.
            where: Predicate on a case.
            fields: Required values of fields. Two underscores or a dot name a key of a mapping
                (``metadata__year=2017``), as does a mapping (``metadata={"year": 2017}``). A list matches a
                value that it contains.

        Raises:
            SuiteError: If no case is left, or a case has no such field.
        """
        if complexity is not None:
            fields["complexity"] = {complexity} if isinstance(complexity, str) else set(complexity)
        candidates: Iterable[int] = range(len(self))
        if tag is not None:
            wanted = [tag] if isinstance(tag, str) else list(tag)
            candidates = sorted({index for word in wanted for index in self.tags.get(word, ())})
        meets = case_filter(fields)
        chosen = [
            index
            for index in candidates
            if meets(case := self.cases[index]) and (where is None or where(case))
        ]
        if not chosen:
            raise SuiteError(f'suite "{self.name}"', "no case meets the filter")
        return self._with(chosen)

    def sample(self, n: int, *, seed: int) -> Self:
        """Return a random suite of ``n`` cases, independent of the order of the file.

        A larger sample with the same seed contains the smaller one.

        Raises:
            SuiteError: If ``n`` is below 1 or above the number of cases.
        """
        if not 1 <= n <= len(self):
            raise SuiteError(f'suite "{self.name}"', f"cannot sample {n:,} of {len(self):,} cases")
        return self._with(seeded_sample(n, (case.id for case in self), seed=seed))

    def split(self, shares: Sequence[float] | Mapping[str, float], *, seed: int) -> Any:
        """Split the suite into random parts; a group is never divided.

        The part of a group depends only on its name and the seed, except for the few groups at the cuts.

        Args:
            shares: Relative size of each part, in a list or by name.
            seed: Any whole number.

        Returns:
            A tuple of suites, or a dictionary of suites by the given names.

        Raises:
            SuiteError: If a share is not positive or a part gets no case.
        """
        names = list(shares) if isinstance(shares, Mapping) else [str(i) for i in range(len(shares))]
        weights = list(shares.values()) if isinstance(shares, Mapping) else list(shares)
        if not weights or min(weights) <= 0:
            raise SuiteError(f'suite "{self.name}"', f"cannot split by {weights}: shares must be above 0")
        parts = split_by_group([self.group_of(case) for case in self], weights, seed=seed)
        for name, part in zip(names, parts, strict=True):
            if not part:
                raise SuiteError(f'suite "{self.name}"', f"has too few groups to split: part {name} is empty")
        suites = [self._with(part) for part in parts]
        return dict(zip(names, suites, strict=True)) if isinstance(shares, Mapping) else tuple(suites)

    def with_settings(self, **changes: Unpack[SettingKeywords]) -> Self:
        """Return a suite with the same cases and other settings.

        Args:
            changes: Settings by name, as records or as in a suite file. A mapping for ``tools``,
                ``messages``, ``judge``, ``composite`` or ``limits`` changes only the keys that it has.

        Raises:
            SuiteError: With every mistake found.
        """
        from trivium.suites.settings_loader import with_changes

        settings = with_changes(self.settings, changes, source=f'suite "{self.name}"')
        return replace(self, settings=settings)

    @cached_property
    def digest(self) -> str:
        """Hash of the cases, in order."""
        return digest_of(self)

    @cached_property
    def settings_digest(self) -> str:
        """Hash of the settings."""
        return digest_of([self.settings])

    @cached_property
    def _cases(self) -> Cases:
        assert isinstance(self.cases, Cases)  # noqa: S101 - made so in __post_init__
        return self.cases

    def _with(self, chosen: Sequence[int]) -> Self:
        """Return a suite of the cases at these indices."""
        cases = CaseView(self._cases, chosen)
        return replace(self, cases=CaseTuple(cases) if isinstance(self.cases, CaseTuple) else cases)


def _without(value: object, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that do not have a value."""
    return {key: each for key, each in keys.items() if each is not value}
