"""Executed copies hold no widgets: by hand, and from a kernel in which a library draws a bar."""

import nbformat
import pytest

from dipllm_lib.run import execute, profiles, widgets

BAR = {"output_type": "display_data", "data": {widgets.WIDGET: {}, "text/plain": "Loading: 0%"}}
TEXT = {"output_type": "stream", "name": "stdout", "text": "loss 0.5"}


def test_bars_go_pictures_stay_and_the_notebook_is_not_touched():
    viewer = {"output_type": "display_data", "data": {widgets.WIDGET: {}, "image/png": "iVBOR"}}
    cells = [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": [BAR, TEXT, viewer]}]
    notebook = {"cells": cells, "metadata": {"widgets": {"state": {}}, "language_info": {}}}
    found = widgets.without(notebook)
    assert found["metadata"] == {"language_info": {}}
    assert found["cells"][1]["outputs"] == [TEXT, viewer | {"data": {"image/png": "iVBOR"}}]
    assert found["cells"][0] == cells[0] and len(cells[1]["outputs"]) == 3


@pytest.mark.slow
def test_a_bar_of_a_library_is_not_in_the_copy(tmp_path):
    """tqdm draws widgets in a kernel, even where TQDM_DISABLE is set."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(
                'profile = "smoke"\nseed = 0', metadata={"tags": ["parameters"]}
            ),
            nbformat.v4.new_code_cell(
                "from tqdm.auto import tqdm\nprint(sum(tqdm([1, 2], disable=False)))"
            ),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "x", "language": "python"}},
    )
    path, copy = tmp_path / "01_bar.ipynb", tmp_path / "copy.ipynb"
    nbformat.write(notebook, path)
    execute.run(path, {"profile": "smoke", "seed": 0}, copy, profiles.load("smoke", 0))
    read = nbformat.read(copy, as_version=4)
    assert [o.output_type for o in read.cells[-1].outputs] == ["stream"]
    assert read.cells[-1].outputs[0].text == "3\n" and "widgets" not in read.metadata
