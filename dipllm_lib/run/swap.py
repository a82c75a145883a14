"""Replace several files and folders together: after a crash there is the old set or the new one.

No file system renames two folders in one step, so a journal tells how far the replacement came:

    1. the new ones are made beside their targets, under hidden names
    2. the journal is written beside the first target: which targets were there before
    3. each target is renamed to its old name, and its new one takes its place
    4. the journal is removed; from here on the new set stands
    5. the old ones are removed

A failure in 3 or 4 puts the old set back at once. A kill leaves the journal, and the next call of
`recover` does it; while the journal is there the set may be mixed (`pending`).
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dipllm_lib.run import files


def _beside(target: Path, word: str) -> Path:
    """The hidden name of the `new` or `old` form of a target, in its own folder."""
    return target.with_name(f".{target.name}.{word}.tmp")


def journal(first: Path) -> Path:
    """The journal of a set whose first target is `first`."""
    return first.with_name(f".{first.name}.swap.json")


def pending(first: Path) -> bool:
    """Whether a replacement was cut off and the set may be mixed."""
    return journal(first).exists()


@contextlib.contextmanager
def together(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Yields a path per target, at which the block makes a file or folder that takes its place.

    Nothing is replaced if the block or a rename raises.
    """
    recover(targets)
    new = [_beside(target, "new") for target in targets]
    for path in new:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield new
        _replace(targets)
    finally:
        for path in new:
            files.remove(path)


def _replace(targets: Sequence[Path]) -> None:
    """Steps 2 to 5 of the module's docstring."""
    note = journal(targets[0])
    try:
        files.write_text(note, files.to_json([target.exists() for target in targets]) + "\n")
        for target in targets:
            if target.exists():
                os.replace(target, _beside(target, "old"))
            os.replace(_beside(target, "new"), target)
        note.unlink()
    finally:
        recover(targets)


def recover(targets: Sequence[Path]) -> None:
    """Undo a replacement that was cut off, and remove what it or a finished one left behind."""
    note = journal(targets[0])
    if note.exists():
        for target, was_there in zip(targets, files.read_json(note), strict=True):
            old = _beside(target, "old")
            if old.exists():
                files.remove(target)
                os.replace(old, target)
            elif not was_there:
                files.remove(target)
        note.unlink()
    for target in targets:
        for word in ("new", "old"):
            files.remove(_beside(target, word))
