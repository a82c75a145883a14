"""An executed notebook without widgets, which need a running kernel.

Bars of libraries are widgets under IPython whatever the environment says; a widget with a picture
beside it, such as the game viewer's, stays as the picture.
"""

WIDGET = "application/vnd.jupyter.widget-view+json"


def without(notebook: dict) -> dict:
    """A copy of `notebook` without widgets, their state, and the bars that were nothing else."""
    metadata = {k: v for k, v in notebook["metadata"].items() if k != "widgets"}
    return {**notebook, "cells": [_cell(c) for c in notebook["cells"]], "metadata": metadata}


def _cell(cell: dict) -> dict:
    if "outputs" not in cell:
        return cell
    return {**cell, "outputs": [_output(o) for o in cell["outputs"] if not _bar(o)]}


def _bar(output: dict) -> bool:
    """Whether an output is a widget without a picture."""
    data = output.get("data", {})
    return WIDGET in data and "image/png" not in data


def _output(output: dict) -> dict:
    if WIDGET not in output.get("data", {}):
        return output
    return {**output, "data": {k: v for k, v in output["data"].items() if k != WIDGET}}
