"""A model in an object store is replaced as a whole: whatever fails, the old or the new one is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import zarr

from tests.objects import environment_of, failing_proxy
from tests.samples import make_mixture
from vmfa_dask import MixtureModel
from vmfa_dask.store import models
from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.strict import sealed

FIRST, OLD, NEW = (MixtureModel.of(make_mixture(c, 5, 1, dtype="float32")) for c in (2, 3, 4))


def groups(url: str) -> set[str]:
    """Where arrays are; empty for the root."""
    names = [name.split("/") for name in ObjectPlace(url).names()]
    return {"/".join(name[: name.index("weights")]) for name in names if "weights" in name}


class Failing:
    """Saves through a proxy that refuses some of the requests that change something."""

    def __init__(self) -> None:
        self._fails: Callable[[int], bool] = lambda number: False
        self._numbers = itertools.count(1)

    def failure(self, method: str, path: str) -> int | None:
        return 403 if method in ("PUT", "POST", "DELETE") and self._fails(next(self._numbers)) else None

    def save(self, model: MixtureModel, url: str, fails: Callable[[int], bool]) -> bool:
        """Save while requests fail by their number; False if the save failed."""
        self._fails, self._numbers = fails, itertools.count(1)
        with environment_of(self.port):
            try:
                model.save(url, overwrite=True)
            except OSError as error:
                failure = error
            else:
                return True
        assert url in str(failure)
        return False


@pytest.fixture(scope="module")
def failing(server: int) -> Iterator[Failing]:
    failing = Failing()
    with failing_proxy(server, failing.failure) as failing.port:
        yield failing


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(True, id="the process is gone"),
        pytest.param(False, id="one request fails", marks=pytest.mark.long),
    ],
)
def test_a_save_that_fails_at_any_request_leaves_the_old_or_the_new(failing: Failing, bucket: str, gone: bool) -> None:
    url, seen = f"{bucket}/m", []
    FIRST.save(url)
    OLD.save(url, overwrite=True)
    for k in itertools.count(1):
        complete = failing.save(NEW, url, (lambda n, k=k: n >= k) if gone else (lambda n, k=k: n == k))
        seen.append(MixtureModel.load(url))
        if complete:
            break
        if seen[-1] == NEW:
            OLD.save(url, overwrite=True)
            assert len(groups(url)) == 1
    assert seen == [OLD] * seen.count(OLD) + [NEW] * seen.count(NEW)
    assert seen.count(OLD) >= 12  # each array and its metadata, their group, and the mark
    assert seen.count(NEW) >= 2  # the old arrays could not be removed
    assert len(groups(url)) == 1  # what the failed ones have left is gone, too


def test_a_first_save_that_fails_is_no_model(failing: Failing, bucket: str) -> None:
    for k in range(1, 13):
        url = f"{bucket}/{k}"
        assert not failing.save(NEW, url, lambda n, k=k: n >= k)
        with pytest.raises((FileNotFoundError, ValueError), match=r"no model is stored there|the model is incomplete"):
            MixtureModel.load(url)
    OLD.save(url, overwrite=True)
    assert MixtureModel.load(url) == OLD
    assert len(groups(url)) == 1
    url = f"{bucket}/once"
    assert not failing.save(NEW, url, lambda n: n == 5)
    assert ObjectPlace(url).names() == []


def test_a_mark_whose_answer_was_lost_leads_to_its_arrays(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, replace = f"{bucket}/m", ObjectPlace.replace
    OLD.save(url)

    def lose(place: ObjectPlace, name: str, text: str) -> None:
        replace(place, name, text)
        raise OSError(f"{url}: no answer")

    monkeypatch.setattr(ObjectPlace, "replace", lose)
    with pytest.raises(OSError, match="no answer"):
        NEW.save(url, overwrite=True)
    monkeypatch.undo()
    assert MixtureModel.load(url) == NEW
    OLD.save(url, overwrite=True)
    assert len(groups(url)) == 1


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, number: int, act: Callable[[], None]) -> None:
    """Do something before a call of a function of `store.models`."""
    function, numbers = getattr(models, name), itertools.count(1)

    def call(*arguments: Any) -> Any:
        if next(numbers) == number:
            act()
        return function(*arguments)

    monkeypatch.setattr(models, name, call)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("number", [1, 3, 5])
def test_of_savers_at_once_the_last_one_wins(
    bucket: str, first: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = f"{bucket}/m", []
    if not first:
        FIRST.save(url)

    def act() -> None:
        NEW.save(url, overwrite=True)
        seen.append(MixtureModel.load(url))

    meanwhile(monkeypatch, "write_array", number, act)
    OLD.save(url, overwrite=True)
    assert seen == [NEW]
    assert MixtureModel.load(url) == OLD
    assert len(groups(url)) == 1


def test_a_first_save_that_comes_second_replaces_nothing(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{bucket}/m"
    meanwhile(monkeypatch, "write_array", 3, lambda: NEW.save(url, overwrite=True))
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        OLD.save(url)
    assert MixtureModel.load(url) == NEW


@pytest.mark.parametrize("number", range(1, 6))
def test_a_reader_gets_the_new_model_when_the_old_one_goes(
    bucket: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/m"
    for old, new in ((FIRST, OLD), (OLD, NEW)):  # from the root to a group, and from a group to another one
        old.save(url, overwrite=True)
        with monkeypatch.context() as patched:
            meanwhile(patched, "read_array", number, lambda new=new: new.save(url, overwrite=True))
            assert MixtureModel.load(url) == new


def test_groups_that_no_save_would_name_are_refused(bucket: str) -> None:
    url = f"{bucket}/m"
    for model in (OLD, NEW):
        model.save(url, overwrite=True)
    root = zarr.open_group(zarr_target(url), mode="r+")
    good = {name: value for name, value in root.attrs.items() if name != "checksum"}
    for group in ("", "../m", "weights", None, 3, good["group"] + "/.."):
        root.attrs.update(sealed({**good, "group": group}))
        with pytest.raises(ValueError, match=r"damaged: group is .*, expected the name of a group of arrays"):
            MixtureModel.load(url)
    root.attrs.update(sealed({**good, "group": "0" * 16 + "-" + "0" * 12}))
    with pytest.raises(ValueError, match="the array 'weights' is missing"):
        MixtureModel.load(url)
    root.attrs.update(sealed(good))
    np.testing.assert_array_equal(MixtureModel.load(url).means, NEW.means)
