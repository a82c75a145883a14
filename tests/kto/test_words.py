"""Texts of all games: recorded prompts, words of a scratch model, tokens that keep texts apart.

Record prompts anew with

    python -m pytest tests/kto/test_words.py --rewrite
"""

from pathlib import Path

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from dipllm_lib.dip import orders, rules
from dipllm_lib.dip.policies import Hold, SoftDumbBot
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import games, orders_game, words
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.cutting import PRIVATE, CutAndChoose
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.repeated import IteratedPD
from dipllm_lib.kto.repetition import Repetition
from dipllm_lib.kto.rule_change import RuleChange
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.lm.choices import trie
from dipllm_lib.lm.tokenizers import PIECE, SubwordTokenizer, WordTokenizer
from dipllm_lib.run import seeding

GOLDEN = Path(__file__).parent / "golden" / "prompts.txt"
MILD = Payoffs(3, 0, 4, 1)
GAMES = {
    "ultimatum": Ultimatum(),
    "ultimatum of 20": Ultimatum(20),
    "ultimatum of 100": Ultimatum(100),
    "gift": GiftPD(),
    "dilemma": IteratedPD(10),
    "dilemma, continuation": IteratedPD(delta=0.9),
    "dilemma, neutral": IteratedPD(10, labels="neutral"),
    "cake": CutAndChoose(),
    "cake, private": CutAndChoose(20, PRIVATE),
    "bargaining": AlternatingOffers(delta=0.9),
    "bargaining, breakdown": AlternatingOffers(20, None, go_on=0.9),
    "bargaining, both": AlternatingOffers(100, 6, go_on=0.95),
    "ultimatum again": Repetition(Ultimatum(), 20),
    "gift again": Repetition(GiftPD(), 20, counted=False),
    "cake again": Repetition(CutAndChoose(10, PRIVATE), 20),
    "bargaining again": Repetition(AlternatingOffers(delta=0.9), 20),
    "dilemma changes": RuleChange(IteratedPD(12), IteratedPD(12, pays=MILD), 3),
    "dilemma changes in silence": RuleChange(IteratedPD(12), IteratedPD(12, pays=MILD), 3, False),
    "gift changes": RuleChange(Repetition(GiftPD(), 12), Repetition(GiftPD(3), 12), 3),
}


def diplomacy(near=0):
    turn = orders.turn(rules.start(), 0, 4)
    own = orders_game.frequent_orders(
        turn, SoftDumbBot(0.2, 0.2), seeding.child(0, "kto", "golden")
    )
    return orders_game.OrdersGame((turn,), (own,), Hold(), 1, near=near)


def walks(name, game, steps=30):
    """(prompt without and with setting and forecast, legal texts) along random play."""
    rng = seeding.child(0, "kto", "golden", name)
    state, found = game.reset(rng), []
    for k in range(steps):
        movers = game.to_move(state)
        if not movers:
            state = game.reset(rng)
            continue
        actions = []
        for player in movers:
            legal = game.legal(state, player)
            forecast = games.forecast_text(legal[0], rng.random())
            told = game.observe(state, player, words.SETTINGS[k % 6], forecast)
            found.append((game.observe(state, player), told, legal))
            actions.append(int(rng.integers(len(legal))))
        state = game.step(state, tuple(actions))
    return found


def recorded():
    """The text of the golden file: some steps of every game, every player among them."""
    parts = []
    for name, game in {**GAMES, "orders": diplomacy(), "orders, near": diplomacy(1)}.items():
        parts.append(f"== {name}")
        for plain, told, legal in walks(name, game, 6):
            parts += [plain, told, "  " + " |".join(legal[:3]) + f" ({len(legal)})"]
    return "\n".join(parts) + "\n"


def test_prompts_are_those_recorded(rewrite):
    if rewrite:
        GOLDEN.write_text(recorded(), encoding="utf-8", newline="\n")
    assert recorded() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GAMES)
def test_every_word_is_known_and_no_text_begins_another(name):
    tokenizer = WordTokenizer(words.WORDS)
    for plain, told, legal in walks(name, GAMES[name], 80):
        for text in (plain, told, plain + legal[0]):
            pieces = PIECE.findall(text)
            assert "".join(pieces) == text
            assert tokenizer.text([tokenizer.piece(p)[0] for p in pieces]) == " " + text
        check_legal(legal)
        trie([sum(map(tokenizer.piece, PIECE.findall(text)), ()) for text in legal])


@pytest.mark.parametrize("name", [*GAMES, "orders"])
def test_what_is_known_decides_what_is_read_and_nothing_is_below_the_worst(name):
    game = GAMES[name] if name in GAMES else diplomacy()
    read, rng = {}, seeding.child(0, "kto", "known", name)
    for _ in range(12):
        state = game.reset(rng)
        while movers := game.to_move(state):
            hash(state)
            actions = []
            for player in movers:
                said = (game.observe(state, player), game.legal(state, player))
                assert read.setdefault(game.infoset(state, player), said) == said
                actions.append(int(rng.integers(len(said[1]))))
            state = game.step(state, tuple(actions))
        assert len(game.payoffs(state)) == game.players
        assert min(game.payoffs(state)) >= game.worst
        drawn = getattr(game, "delta", None) is not None and name.startswith("dilemma")
        assert drawn or max(game.payoffs(state)) <= game.worst + game.scale


def check_legal(legal):
    assert all(text.startswith(" ") and text.endswith(".") and "  " not in text for text in legal)
    assert all(games.parse(text, legal) == k for k, text in enumerate(legal))
    assert not [(a, b) for a in legal for b in legal if a != b and b.startswith(a)]


def test_words_of_order_choice():
    tokenizer = WordTokenizer(tuple(dict.fromkeys([*orders_game.WORDS, *words.WORDS])))
    for near in (0, 1):
        for plain, told, legal in walks("orders", diplomacy(near), 12):
            assert sum(map(len, PIECE.findall(told))) == len(told)
            trie([sum(map(tokenizer.piece, PIECE.findall(text)), ()) for text in legal])
            [tokenizer.piece(piece) for text in (plain, told) for piece in PIECE.findall(text)]
            check_legal(legal)


def test_the_vocabulary_fits_the_small_model():
    assert len(set(words.WORDS)) == len(words.WORDS) < 400


# how the tokenizers of SmolLM2 (after single digits) and of Llama 3 cut a text before any merge
CUTS = {
    "smollm2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama 3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


@pytest.mark.parametrize("family", CUTS)
def test_no_merge_can_cross_a_piece(family):
    cut = Split(Regex(CUTS[family]), "isolated")
    for name, game in {**GAMES, "orders": diplomacy()}.items():
        for plain, told, legal in walks(name, game, 12):
            for text in (plain + legal[0], told + legal[-1]):
                ends = {end for _, (_, end) in cut.pre_tokenize_str(text)}
                assert {match.end() for match in PIECE.finditer(text)} <= ends, text


@pytest.fixture(scope="module")
def subwords():
    """The tokenizer of SmolLM2 alone, without its weights."""
    transformers = pytest.importorskip("transformers")
    from dipllm_lib.lm import smollm2

    with smollm2.gguf_file("") as path:
        inner = transformers.AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True
        )
    return SubwordTokenizer(inner)


@pytest.mark.slow
def test_tokens_of_smollm2(subwords):
    """Ids of a text are those of its pieces, and no legal text begins another one."""
    longest = {}
    for name, game in {**GAMES, "orders": diplomacy()}.items():
        for _, told, legal in walks(name, game, 80):
            for option in (legal[0], legal[-1]):
                pieces = PIECE.findall(told + option)
                ids = sum(map(subwords.piece, pieces), ())
                assert ids == subwords.piece(told + option)
                assert subwords.text(ids) == told + option
            trie([subwords.piece(option) for option in legal])
            longest[name] = max(longest.get(name, 0), len(subwords.piece(told)))
    once = [name for name in GAMES if "again" not in name and "changes" not in name]
    assert max(longest[name] for name in once if "dilemma" not in name) <= 64
    lengths = [len(subwords.piece(text)) for text in (" 0.", " 40.", " 100.", " accept.")]
    assert lengths == [3, 4, 5, 2] and len(subwords.piece(" refuse.")) == 2
