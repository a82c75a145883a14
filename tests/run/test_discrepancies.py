"""Every named switch exists and has its named default; every named table is in the chain."""

import dataclasses
import importlib
import inspect
import re

import pytest

from dipllm_lib.run import discrepancies, pipeline, profiles

ENTRIES = discrepancies.entries()
CPU = profiles.load("cpu", 0)


def switches() -> list[tuple[str, str]]:
    """(name, default) of every switch; a default with commas inside brackets is one."""
    found = []
    for entry in ENTRIES:
        names = entry.switch.split(", ")
        values = [entry.default] if len(names) == 1 else entry.default.split(", ")
        assert len(names) == len(values), entry
        found += [pair for pair in zip(names, values, strict=True) if pair[0] != "–"]
    return found


def default(name: str) -> str:
    """The default behind the name of a switch, "–" for what is chosen by name. Raises if there is
    no such thing."""
    study, _, rest = name.partition(".")
    if study in profiles.STUDIES:
        return str(getattr(getattr(CPU, study), rest))
    module, inner, argument = re.fullmatch(r"lib\.([\w.]+):([\w.]+)(?:\((\w+)\))?", name).groups()
    thing = importlib.import_module(f"dipllm_lib.{module}")
    for part in inner.split("."):
        owner, thing = thing, getattr(thing, part, None)
    if argument:
        return str(inspect.signature(thing).parameters[argument].default)
    if dataclasses.is_dataclass(owner):
        fields = {f.name: f.default for f in dataclasses.fields(owner)}
        return str(fields[inner.split(".")[-1]])
    assert thing is not None, name
    return str(thing) if isinstance(thing, float) else "–"


@pytest.mark.parametrize(("name", "stated"), switches())
def test_a_switch_exists_with_its_default(name, stated):
    assert default(name) == stated


def test_a_switch_that_does_not_exist_is_noticed():
    for name in ("dip.search_ruel", "lib.dip.hedge:rule(kapa)", "lib.kto.loss:literal_sing"):
        with pytest.raises((AttributeError, KeyError, AssertionError)):
            default(name)


def test_what_is_shown_is_a_table_of_the_chain():
    known = {name for notebook in pipeline.GRAPH for name in notebook.tables}
    named = {name for entry in ENTRIES for name in entry.shown.split(", ")} - {"–"}
    assert len(named) > 40 and named <= known


def test_the_register_is_whole():
    numbers = {study: [e.number for e in ENTRIES if e.study == study] for study in "123"}
    assert {study: len(n) for study, n in numbers.items()} == {"1": 44, "2": 14, "3": 21}
    assert all(n == list(range(1, len(n) + 1)) for n in numbers.values())
    assert {entry.against for entry in ENTRIES} == {"text", "code", "arithmetic"}
    assert all(entry.other and entry.choice for entry in ENTRIES)
    table = discrepancies.table()
    assert tuple(table.columns) == discrepancies.COLUMNS and len(table) == 79
