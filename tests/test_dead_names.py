"""No dead code: whatever a module defines at its top is used by the library, a notebook or a test.

Names that tests alone use are listed here with a reason; a new one must be added or removed.
"""

import ast
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "dipllm_lib").rglob("*.py"))
# a second way to a number, a yardstick, an edge case by name: what tests compare with
YARDSTICKS = """
    dip.arena.PAR dip.arena.square dip.beside.data dip.beside.openings dip.cases.C1
    dip.dil.matrix_game dip.gameloss.divergence dip.matrix_games.exploitability
    dip.objectives.aim dip.outlines.touching dip.places.place_of dip.regret_matching.matrix_game
    dip.rollouts.draw dip.search_checks.signal dip.softfit.fit dip.softfit.interval
    dip.softfit.sample ipd.best_response.regret ipd.exact.akin ipd.exact.determinant
    ipd.exact.frequencies ipd.extortion.akin_observed ipd.extortion.zd_gap ipd.gru_cell._tanh_of
    ipd.human.beside ipd.prediction.prediction_limit kto.bargainers.modal
    kto.bargaining_exact.perfect_replies kto.bargaining_exact.staahl kto.cem.OBJECTIVES
    kto.choice_model.log_likelihood kto.cutting.PRIVATE kto.cutting.cut_values
    kto.cutting.half_point kto.cutting.safe_cut kto.games.decisions kto.gift.gift_values
    kto.gift.subgame_perfect kto.humans.MEAN_GIFT kto.labels.lottery_value
    kto.loss.check_class_weights kto.loss.kto kto.loss.literal_sign kto.loss.pt_kto
    kto.loss.pt_pair kto.loss.rotated kto.loss.sft kto.loss.wmle
    kto.partner_types.averaged_values kto.policies.expected kto.policies.modal
    kto.policies.sample kto.press_menu.MOST kto.prospect.value_torch kto.repeated.best_vectors
    kto.ultimatum.answer_values kto.ultimatum.subgame_perfect kto.words.SETTINGS
    run.reference_files.picture_source
"""
# for readers: another view of a table, the published form of an array, files of their own
READERS = """
    dip.agent.legality_by_kind dip.arena.both_ways dip.arena.ends dip.draw.draw_game
    dip.draw.svg dip.ladder.population dip.last_orders.before dip.last_orders.shown
    dip.objectives.table dip.paper_read.read_prompt dip.paper_text.parse_answer
    dip.planning.errors_table dip.planning.gaps_table dip.population.as_one
    dip.population.as_six dip.population.by_power dip.population.differences dip.rollouts.games
    dip.variants.fit ipd.a2c_settings.PRESETS ipd.game.cooperation ipd.ppi_settings.PRESETS
    ipd.social_tables.diversity ipd.tabular.from_published kto.adaptation.probes
    kto.choices.read kto.games.forecast_text kto.labels.trajectory kto.labels.verified
    kto.opponent.calibration kto.sample_files.read kto.sample_files.write kto.selectors.apply
"""
# modules of study 3 of which no notebook shows everything
SHELVED = """
    kto.league_weights kto.orders_game kto.press kto.press_breach kto.press_menu
    kto.press_metrics kto.rule_change kto.soft_tokens
"""


def module(path: Path) -> str:
    """Dotted name of a file of the library."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module(p): ast.parse(p.read_text(encoding="utf-8")) for p in LIBRARY}


def imports(tree: ast.AST) -> dict[str, str]:
    """Local name -> what it stands for, `module` or `module.name`, imports in functions too."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def stored(statement: ast.stmt) -> set[str]:
    """Names that a statement at the top of a module defines, without dunder names."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        names = {statement.name}
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        nodes = [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        names = {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
    else:
        names = set()
    return {name for name in names if not name.startswith("__")}


def taken(tree: ast.AST) -> set[str]:
    """`module.name` of everything that a file takes from the library."""
    known = imports(tree)
    found = {target for target in known.values() if target not in TREES}
    nodes = list(ast.walk(tree))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    bases = {id(node.value) for node in attributes}
    loads = [n for n in nodes if isinstance(n, ast.Name) and id(n) not in bases]
    handed_on = {known[n.id] for n in loads if known.get(n.id) in TREES}
    for node in attributes:
        base = node.value.id if isinstance(node.value, ast.Name) else None
        if base in known:
            found.add(f"{known[base]}.{node.attr}")
        else:  # such as `STUDIES[name].run` with modules in STUDIES
            found |= {f"{name}.{node.attr}" for name in handed_on}
    return found


def taken_at_home(tree: ast.Module) -> set[str]:
    """Names that a module loads outside the statement that defines them."""
    found = set()
    for statement in tree.body:
        nodes = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        found |= {n.id for n in nodes if isinstance(n.ctx, ast.Load)} - stored(statement)
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            found |= set(ast.literal_eval(statement.value))
    return found


def unused(trees: dict[str, ast.Module], others: list[ast.AST]) -> set[str]:
    """`module.name` of what modules define and neither they nor `others` use.

    Constants that are defined together (`A, B = range(2)`) are used together.
    """
    used = set().union(*(taken(tree) for tree in [*trees.values(), *others]))
    found = set()
    for name, tree in trees.items():
        home = {f"{name}.{n}" for n in taken_at_home(tree)}
        for statement in tree.body:
            full = {f"{name}.{n}" for n in stored(statement)}
            found |= full if not full & (used | home) else set()
    return found


def notebooks() -> list[ast.Module]:
    files = [nbformat.read(p, as_version=4) for p in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    texts = ["\n".join(c.source for c in n.cells if c.cell_type == "code") for n in files]
    return [ast.parse(text) for text in texts]


def test_unused_names_are_found():
    text = "A, B = 1, 2\nC = __version__ = 3\n\ndef f(x=B):\n    return f(x)\n\ndef g():\n    pass"
    trees = {"dipllm_lib.a": ast.parse(text)}
    user = ast.parse("from dipllm_lib import a\n\ndef h():\n    return a.g()\n")
    assert unused(trees, []) == {"dipllm_lib.a.C", "dipllm_lib.a.f", "dipllm_lib.a.g"}
    assert unused(trees, [user]) == {"dipllm_lib.a.C", "dipllm_lib.a.f"}


def listed(names: str) -> set[str]:
    """Full names of a list above."""
    return {f"dipllm_lib.{name}" for name in names.split()}


def test_no_dead_names():
    tests = [ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "tests").rglob("*.py")]
    assert not unused(TREES, [*notebooks(), *tests])


def test_what_tests_alone_use_is_listed_with_its_reason():
    found = unused(TREES, notebooks()) - listed(YARDSTICKS) - listed(READERS)
    left = {name for name in found if name.rpartition(".")[0] not in listed(SHELVED)}
    assert not left, f"use it, remove it, or list it: {sorted(left)}"


def test_the_lists_name_what_is_there():
    there = {f"{m}.{n}" for m, tree in TREES.items() for s in tree.body for n in stored(s)}
    assert listed(YARDSTICKS) | listed(READERS) <= there
    assert listed(SHELVED) <= set(TREES)
