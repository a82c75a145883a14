"""Positions and how they begin; see `boards` for the arrays."""

from .boards import Boards, Orders, centres, start

__all__ = ["Boards", "Orders", "centres", "start"]
