"""Dicts that nobody changes."""

from __future__ import annotations

import json
import pickle

import pytest

from strand.frozen_dict import FrozenDict

pytestmark = pytest.mark.python


def test_a_frozen_dict_refuses_every_change() -> None:
    frozen = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match="cannot be changed"):
        frozen["b"] = 2
    with pytest.raises(TypeError, match="cannot be changed"):
        del frozen["a"]
    with pytest.raises(TypeError, match="cannot be changed"):
        frozen |= {"b": 2}
    for change in (frozen.clear, frozen.popitem, lambda: frozen.update(b=2), lambda: frozen.setdefault("b", 2)):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert frozen == {"a": 1}


def test_a_frozen_dict_is_a_dict_for_json_and_pickle() -> None:
    frozen = FrozenDict({"a": 1})
    assert json.dumps(frozen) == '{"a": 1}'
    again = pickle.loads(pickle.dumps(frozen))
    assert again == frozen
    assert type(again) is FrozenDict
