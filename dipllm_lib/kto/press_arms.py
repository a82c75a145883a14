"""Which games with press are played, and without: seats rotated, seeds paired, resumable by game.

Game g of every arm has the same seed, so it shares its random numbers with game g of the arm
without press for as long as both are on the same positions. Who negotiates in game g:

    off      nobody, there is no press
    pair     powers g mod 7 and the one 1 + (g div 7) mod 6 seats further on
    one      power g mod 7 against six silent ones (a control: nobody answers, so nothing changes)
    three    powers g mod 7, and 2 and 4 further on, among four others who are Random
    all      all seven

84 games are every ordered pair of powers twice. All play like the anchor for people that looks one
phase ahead with the value net for people (`press_effect`); both are part of the repository.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dipllm_lib.dip import anchor, game, human_value
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.kto import press_log
from dipllm_lib.kto.negotiators import (
    Deviator,
    Negotiator,
    PhasedNegotiator,
    Random,
    RuleNegotiator,
    Sanctioner,
    Silent,
)
from dipllm_lib.kto.press_play import Minds, Table, play
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.run.store import Shelf

OFF = "no press"
SEATS = {"pair": 2, "one": 1, "three": 3, "all": 7}  # negotiators at the table


@dataclass(frozen=True)
class Arm:
    """One way to fill a table. who: its negotiator, None without press; others: who sits on the
    seats that are left; trial: any number of games will do. ValueError for a way that is not known
    or games that leave seats unbalanced.
    """

    name: str
    way: str
    who: Negotiator | None
    others: Negotiator
    effect: str
    games: int
    trial: bool = False

    def __post_init__(self):
        if self.who is not None and self.way not in SEATS:
            raise ValueError(f"arm {self.name}: unknown way {self.way!r}: use {', '.join(SEATS)}")
        if self.games < 1 or (not self.trial and self.games % 7):
            raise ValueError(f"arm {self.name}: {self.games} games, need a multiple of 7")

    def seats(self, number: int) -> list[Negotiator] | None:
        """Who sits where in a game, powers in order; None without press."""
        if self.who is None:
            return None
        own = negotiating(self.way, number)
        return [self.who if power in own else self.others for power in range(7)]


def negotiating(way: str, number: int) -> tuple[int, ...]:
    """The powers that negotiate in a game."""
    first = number % 7
    steps = {
        "pair": (0, 1 + number // 7 % 6),
        "one": (0,),
        "three": (0, 2, 4),
        "all": tuple(range(7)),
    }
    return tuple(sorted((first + step) % 7 for step in steps[way]))


def arms(settings) -> list[Arm]:
    """The arms of the study; `settings`: those of study 3 in a profile."""
    many, some = settings.press_games, settings.press_arm_games
    rule, silent, random = RuleNegotiator(), Silent(), Random()
    found = [
        Arm(OFF, "all", None, silent, "none", max(many, 2 * some)),  # a pair for every other game
        Arm("pair", "pair", rule, silent, "priced", many),
        Arm("one, six silent", "one", rule, silent, "priced", 7),
        Arm("all seven", "all", rule, silent, "priced", many),
    ]
    phased = PhasedNegotiator()
    for who, games in (
        (random, some), (rule, some), (Deviator(), some), (Sanctioner(), some), (phased, 2 * some),
    ):  # fmt: skip
        found.append(Arm(f"three {who.name}", "three", who, random, "priced", games))
    found.append(Arm(f"three {phased.name}, binding", "three", phased, random, "binding", some))
    for effect in ("none", "priced", "binding"):
        found.append(Arm(f"all Deviator, {effect}", "all", Deviator(), silent, effect, some))
    return found


@cache
def minds(settings: SceneSettings) -> Minds:
    """The anchor and the value net of the repository, read once in a process."""
    human = anchor.human()
    player, value = human.at(settings.temperature), RowwiseValue(human_value.load())
    return Minds(human, player, value, settings)


Task = tuple[Arm, int, int, SceneSettings, int]


def play_one(task: Task) -> dict:
    """Task (arm, number, seed, settings, last year) -> the log of that game, see `press_log`."""
    arm, number, seed, settings, last_year = task
    mind = minds(settings)
    table = Table(arm.seats(number), mind, arm.effect, last_year, seed, ("press", number))
    played = play(table, game.EndRules(last_year))
    return press_log.summary(played, table, arm.name, number)


def logs(shelf: Shelf, plan: Sequence[Arm]) -> list[dict]:
    """The logs of all games of some arms; a game is a task that is kept."""
    settings = shelf.settings
    scene = SceneSettings.of(settings)
    tasks = [
        (arm, number, shelf.profile.seed, scene, settings.press_last_year)
        for arm in plan
        for number in range(arm.games)
    ]
    keys = [
        f"press.{place}.{number}" for place, arm in enumerate(plan) for number in range(arm.games)
    ]
    return shelf.tasks(play_one, tasks, keys, "games with press")
