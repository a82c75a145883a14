"""The standard map as integer tables: provinces, locations, adjacency, centres, distances, names in
and out.

A province is an id 0-74 in alphabetical order of its code. A location is where a unit stands:
locations 0-74 are the provinces, 75-80 the six named coasts. An army's location is its province (56
possible), a fleet's is a sea, a coast without named coasts, or one of the six (64 possible). Powers
are 0-6 alphabetical, -1 is none. No game logic here.

The map is typed in below as two lists of neighbours, each pair once. Shapes: P = 75 provinces, L =
81 locations, S = 19 seas; a set of seas is a bit mask over `SEAS`, a set of coastal provinces one
over `SHORES`, both in int64.
"""

from typing import NamedTuple

import numpy as np

POWERS = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")

PLACES = """
ADR Adriatic Sea, AEG Aegean Sea, ALB Albania, ANK Ankara, APU Apulia, ARM Armenia, BAL Baltic Sea,
BAR Barents Sea, BEL Belgium, BER Berlin, BLA Black Sea, BOH Bohemia, BOT Gulf of Bothnia,
BRE Brest, BUD Budapest, BUL Bulgaria, BUR Burgundy, CLY Clyde, CON Constantinople, DEN Denmark,
EAS Eastern Mediterranean, EDI Edinburgh, ENG English Channel, FIN Finland, GAL Galicia,
GAS Gascony, GRE Greece, HEL Helgoland Bight, HOL Holland, ION Ionian Sea, IRI Irish Sea, KIE Kiel,
LON London, LVN Livonia, LVP Liverpool, LYO Gulf of Lyon, MAO Mid-Atlantic Ocean, MAR Marseilles,
MOS Moscow, MUN Munich, NAF North Africa, NAO North Atlantic Ocean, NAP Naples, NTH North Sea,
NWG Norwegian Sea, NWY Norway, PAR Paris, PIC Picardy, PIE Piedmont, POR Portugal, PRU Prussia,
ROM Rome, RUH Ruhr, RUM Rumania, SER Serbia, SEV Sevastopol, SIL Silesia, SKA Skagerrak, SMY Smyrna,
SPA Spain, STP St Petersburg, SWE Sweden, SYR Syria, TRI Trieste, TUN Tunis, TUS Tuscany,
TYR Tyrolia, TYS Tyrrhenian Sea, UKR Ukraine, VEN Venice, VIE Vienna, WAL Wales, WAR Warsaw,
WES Western Mediterranean, YOR Yorkshire, BUL/EC Bulgaria (east coast),
BUL/SC Bulgaria (south coast), SPA/NC Spain (north coast), SPA/SC Spain (south coast),
STP/NC St Petersburg (north coast), STP/SC St Petersburg (south coast)
"""

ARMY_NEIGHBOURS = """
ALB GRE SER TRI | ANK ARM CON SMY | APU NAP ROM VEN | ARM SEV SMY SYR | BEL BUR HOL PIC RUH |
BER KIE MUN PRU SIL | BOH GAL MUN SIL TYR VIE | BRE GAS PAR PIC | BUD GAL RUM SER TRI VIE |
BUL CON GRE RUM SER | BUR GAS MAR MUN PAR PIC RUH | CLY EDI LVP | CON SMY | DEN KIE SWE |
EDI LVP YOR | FIN NWY STP SWE | GAL RUM SIL UKR VIE WAR | GAS MAR PAR SPA | GRE SER | HOL KIE RUH |
KIE MUN RUH | LON WAL YOR | LVN MOS PRU STP WAR | LVP WAL YOR | MAR PIE SPA | MOS SEV STP UKR WAR |
MUN RUH SIL TYR | NAF TUN | NAP ROM | NWY STP SWE | PAR PIC | PIE TUS TYR VEN | POR SPA |
PRU SIL WAR | ROM TUS VEN | RUM SER SEV UKR | SER TRI | SEV UKR | SIL WAR | SMY SYR |
TRI TYR VEN VIE | TUS VEN | TYR VEN VIE | UKR WAR | WAL YOR
"""

FLEET_NEIGHBOURS = """
ADR ALB APU ION TRI VEN | AEG BUL/SC CON EAS GRE ION SMY | ALB GRE ION TRI | ANK ARM BLA CON |
APU ION NAP VEN | ARM BLA SEV | BAL BER BOT DEN KIE LVN PRU SWE | BAR NWG NWY STP/NC |
BEL ENG HOL NTH PIC | BER KIE PRU | BLA BUL/EC CON RUM SEV | BOT FIN LVN STP/SC SWE |
BRE ENG GAS MAO PIC | BUL/EC CON RUM | BUL/SC CON GRE | CLY EDI LVP NAO NWG | CON SMY |
DEN HEL KIE NTH SKA SWE | EAS ION SMY SYR | EDI NTH NWG YOR | ENG IRI LON MAO NTH PIC WAL |
FIN STP/SC SWE | GAS MAO SPA/NC | GRE ION | HEL HOL KIE NTH | HOL KIE NTH | ION NAP TUN TYS |
IRI LVP MAO NAO WAL | LON NTH WAL YOR | LVN PRU STP/SC | LVP NAO WAL |
LYO MAR PIE SPA/SC TUS TYS WES | MAO NAF NAO POR SPA/NC SPA/SC WES | MAR PIE SPA/SC | NAF TUN WES |
NAO NWG | NAP ROM TYS | NTH NWG NWY SKA YOR | NWG NWY | NWY SKA STP/NC SWE | PIE TUS |
POR SPA/NC SPA/SC | ROM TUS TYS | RUM SEV | SKA SWE | SMY SYR | SPA/SC WES | TRI VEN | TUN TYS WES |
TUS TYS | TYS WES
"""

SEA_CODES = "ADR AEG BAL BAR BLA BOT EAS ENG HEL ION IRI LYO MAO NAO NTH NWG SKA TYS WES"
INLAND_CODES = "BOH BUD BUR GAL MOS MUN PAR RUH SER SIL TYR UKR VIE WAR"
NEUTRAL_CENTRES = "BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN"

OPENING = {
    "AUSTRIA": "A BUD, A VIE, F TRI",
    "ENGLAND": "F EDI, F LON, A LVP",
    "FRANCE": "F BRE, A MAR, A PAR",
    "GERMANY": "F KIE, A BER, A MUN",
    "ITALY": "F NAP, A ROM, A VEN",
    "RUSSIA": "A WAR, A MOS, F SEV, F STP/SC",
    "TURKEY": "F ANK, A CON, A SMY",
}

ALIASES = {"MID": "MAO", "NAT": "NAO", "NRG": "NWG", "GOL": "LYO", "NOR": "NWY"}

INLAND, COAST, SEA = 0, 1, 2
NONE, ARMY_UNIT, FLEET_UNIT = 0, 1, 2
UNIT_LETTERS = (" ", "A", "F")
FAR = 99  # a distance between places that no path joins

CODES: tuple[str, ...] = tuple(place.split()[0] for place in PLACES.split(","))
NAMES: tuple[str, ...] = tuple(place.strip().split(" ", 1)[1] for place in PLACES.split(","))
INDEX: dict[str, int] = {code: i for i, code in enumerate(CODES)}
N_PROVINCES, N_LOCATIONS, N_POWERS = 75, 81, 7


def location(text: str) -> int:
    """Location id of a code in any accepted notation: `STP/SC`, `stp(sc)`, `mid`. ValueError if
    there is none.
    """
    code = text.strip().upper().replace("(", "/").replace(")", "")
    base, slash, coast = code.partition("/")
    code = ALIASES.get(base, base) + slash + coast
    if code not in INDEX:
        raise ValueError(f"unknown province {text!r}: the standard map has no such code")
    return INDEX[code]


def power(name: str) -> int:
    """Power id 0-6 of a name such as FRANCE. ValueError if there is none."""
    if name not in POWERS:
        raise ValueError(f"unknown power {name!r}: known are {', '.join(POWERS)}")
    return POWERS.index(name)


def _symmetric(text: str, size: int) -> np.ndarray:
    table = np.zeros((size, size), bool)
    for row in text.split("|"):
        first, *others = (INDEX[code] for code in row.split())
        table[first, others] = table[others, first] = True
    return table


def _by_province(table: np.ndarray, axis: int) -> np.ndarray:
    """Merge the six named coasts of an axis of length 81 into their provinces."""
    moved = np.moveaxis(table, axis, 0)
    merged = moved[:N_PROVINCES].copy()
    for coast in range(N_PROVINCES, N_LOCATIONS):
        merged[PROV_OF[coast]] |= moved[coast]
    return np.moveaxis(merged, 0, axis)


def _distances(adjacent: np.ndarray) -> np.ndarray:
    """Shortest path lengths between all pairs of nodes of a boolean adjacency, `FAR` where there is
    none.
    """
    reached = np.eye(len(adjacent), dtype=bool)
    distance = np.where(reached, 0, FAR)
    for step in range(1, len(adjacent)):
        wider = reached | (reached.astype(np.int32) @ adjacent.astype(np.int32) > 0)
        distance[wider & ~reached] = step
        reached = wider
    return distance.astype(np.int8)


def _masks(table: np.ndarray) -> np.ndarray:
    """Rows of booleans as int64 bit masks, column 0 the lowest bit."""
    return (table.astype(np.int64) << np.arange(table.shape[1], dtype=np.int64)).sum(axis=1)


PROV_OF = np.array([INDEX[code[:3]] for code in CODES], np.int8)
KIND = np.full(N_PROVINCES, COAST, np.int8)
KIND[[INDEX[code] for code in INLAND_CODES.split()]] = INLAND
KIND[[INDEX[code] for code in SEA_CODES.split()]] = SEA

ARMY = _symmetric(ARMY_NEIGHBOURS, N_PROVINCES)
FLEET = _symmetric(FLEET_NEIGHBOURS, N_LOCATIONS)
FLEET_PROV = _by_province(FLEET, 1)
_SAILS = _by_province(FLEET_PROV, 0)
ANY = ARMY | _SAILS
TOUCH = _SAILS & ((KIND == SEA)[:, None] | (KIND == SEA)[None, :])

COASTS = np.full((N_PROVINCES, 2), -1, np.int8)
for _coast in range(N_PROVINCES, N_LOCATIONS):
    COASTS[PROV_OF[_coast], (_coast - N_PROVINCES) % 2] = _coast

HAS_ARMY = np.zeros(N_LOCATIONS, bool)
HAS_ARMY[:N_PROVINCES] = KIND != SEA
HAS_FLEET = FLEET.any(axis=1)

START_UNIT = np.zeros(N_PROVINCES, np.int8)
START_LOC = np.full(N_PROVINCES, -1, np.int8)
START_POWER = np.full(N_PROVINCES, -1, np.int8)
for _power, _units in OPENING.items():
    for _unit in _units.split(", "):
        _place = INDEX[_unit[2:]]
        START_UNIT[PROV_OF[_place]] = UNIT_LETTERS.index(_unit[0])
        START_LOC[PROV_OF[_place]] = _place
        START_POWER[PROV_OF[_place]] = POWERS.index(_power)

HOME = START_POWER.copy()
START_OWNER = START_POWER.copy()
CENTRE = HOME >= 0
CENTRE[[INDEX[code] for code in NEUTRAL_CENTRES.split()]] = True

DIST_ANY = _distances(ANY)
_DIST_FLEET = _distances(FLEET)
HOME_DIST_ARMY = np.stack([DIST_ANY[:, HOME == p].min(axis=1) for p in range(N_POWERS)])
HOME_DIST_FLEET = np.stack([
    _DIST_FLEET[:, HOME[PROV_OF] == p].min(axis=1) for p in range(N_POWERS)
])

SEAS = np.flatnonzero(KIND == SEA).astype(np.int8)
SHORES = np.flatnonzero(KIND == COAST).astype(np.int8)
SEA_INDEX = np.full(N_PROVINCES, -1, np.int8)
SEA_INDEX[SEAS] = np.arange(len(SEAS))
SHORE_INDEX = np.full(N_PROVINCES, -1, np.int8)
SHORE_INDEX[SHORES] = np.arange(len(SHORES))
SEA_MASK = _masks(TOUCH[:, SEAS])
SHORE_MASK = _masks(TOUCH[:, SHORES])
# alphabetical rank of a location by its full English name, and by its code
NAME_RANK = np.argsort(np.argsort(np.array(NAMES))).astype(np.int8)
CODE_RANK = np.argsort(np.argsort(np.array(CODES))).astype(np.int8)


class Tables(NamedTuple):
    """The tables that compiled code reads, as one argument. Shapes and meaning: module docstring
    and names above.
    """

    prov_of: np.ndarray  # int8 (81,)
    army: np.ndarray  # bool (75, 75)
    fleet: np.ndarray  # bool (81, 81)
    fleet_prov: np.ndarray  # bool (81, 75)
    coasts: np.ndarray  # int8 (75, 2)
    kind: np.ndarray  # int8 (75,)
    centre: np.ndarray  # bool (75,)
    home: np.ndarray  # int8 (75,)
    sea_index: np.ndarray  # int8 (75,), -1 on land
    shore_index: np.ndarray  # int8 (75,), -1 elsewhere
    seas: np.ndarray  # int8 (19,)
    sea_mask: np.ndarray  # int64 (75,), seas that touch the province
    shore_mask: np.ndarray  # int64 (75,), coastal provinces that touch the sea
    home_dist_army: np.ndarray  # int8 (7, 75), steps of any kind to the nearest home centre
    home_dist_fleet: np.ndarray  # int8 (7, 81), steps of a fleet to the nearest home centre
    dist_any: np.ndarray  # int8 (75, 75), steps of any kind
    name_rank: np.ndarray  # int8 (81,), alphabetical rank of the full English name
    code_rank: np.ndarray  # int8 (81,), alphabetical rank of the code


TABLES = Tables(
    PROV_OF, ARMY, FLEET, FLEET_PROV, COASTS, KIND, CENTRE, HOME, SEA_INDEX, SHORE_INDEX, SEAS,
    SEA_MASK, SHORE_MASK, HOME_DIST_ARMY, HOME_DIST_FLEET, DIST_ANY, NAME_RANK, CODE_RANK,
)  # fmt: skip
for _table in TABLES:
    _table.flags.writeable = False
