"""A documented setting, and what the settings classes of the three studies share.

A field is one line: its value in `smoke`, `cpu` and `paper`, then text, unit and source. A source
is a table or section of a paper, or "chosen: why".
"""

import hashlib
import json
from dataclasses import asdict, field, fields

import pandas as pd


def setting(smoke, cpu, paper, text: str, unit: str, source: str) -> object:
    """A dataclass field without default; its three values and its text lie in the metadata."""
    values = {"smoke": smoke, "cpu": cpu, "paper": paper}
    return field(metadata={"values": values, "text": text, "unit": unit, "source": source})


class Settings:
    """What the three dataclasses share: the documented table, the hash of the manifest."""

    @classmethod
    def of(cls, profile: str):
        """The instance of `profile`."""
        return cls(**{f.name: f.metadata["values"][profile] for f in fields(cls)})

    def table(self, *prefixes: str) -> pd.DataFrame:
        """Columns setting, value, unit, text, source; only fields that begin with a prefix."""
        rows = [
            {"setting": f.name, "value": getattr(self, f.name)}
            | {k: f.metadata[k] for k in ("unit", "text", "source")}
            for f in fields(self)
            if not prefixes or f.name.startswith(prefixes)
        ]
        return pd.DataFrame(rows)

    def hash(self) -> str:
        """First 16 hex digits of the sha256 of all values."""
        text = json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
