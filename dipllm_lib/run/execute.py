"""Run one notebook with papermill and judge the run.

Papermill's own marks are never evidence: `sys.exit(0)` in a cell, an interrupt and a killed kernel
all leave a copy that looks finished. A run counts only if the call returned, every code cell has an
execution count, 1 to n in order, no output is an error, and nothing but known lines came on stderr.
"""

import ast
import logging
import re
import sys
import tempfile
from pathlib import Path

from dipllm_lib.run import files, guards, seeding, task_env, widgets
from dipllm_lib.run.places import Refused
from dipllm_lib.run.profiles import Profile

START_SECONDS = 120
INJECTED = {"injected-parameters", "papermill-error-cell-tag"}
# lines that a cell may write to stderr
ALLOWED = (re.compile(r"^\s*$"),)
# lines of the kernel's own process that say nothing about the notebook
KERNEL_NOISE = re.compile(
    r"TCP|encryption|frozen.modules|Debugger|PYDEVD|make the debugger miss|to python to disable"
    r"|KeyboardInterrupt caught in kernel"  # the manager interrupts a kernel before it ends it
    r"|Task was destroyed but it is pending|^task: <Task pending"  # the same under load
    r"|signaler\.cpp"  # the message library closing down under load, after the last cell
    r"|resource_tracker|Parent appears to have exited|^\s*$"
)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Failed(Exception):
    """A notebook run that does not count: where, cause and remedy, a line each."""

    def __init__(self, where: str, cause: str, remedy: str):
        super().__init__(f"{where}: {cause}")
        self.where, self.cause, self.remedy = where, cause, remedy


def source(cell: dict) -> str:
    """A cell's text; a notebook file may hold it as a list of lines."""
    return "".join(cell["source"])


def code_cells(path: Path) -> list[dict]:
    """The code cells of a notebook file. Raises Refused if it is missing."""
    if not path.is_file():
        raise Refused(f"there is no notebook {path.name} in {path.parent.name}/")
    return [cell for cell in files.read_json(path)["cells"] if cell["cell_type"] == "code"]


def code(path: Path) -> str:
    """All code of a notebook. Raises Refused if a cell is not plain Python."""
    texts = [source(cell) for cell in code_cells(path)]
    for number, text in enumerate(texts, 1):
        try:
            ast.parse(text)
        except SyntaxError as error:
            message = f"{path.name}, code cell {number} is not plain Python: {error.msg}"
            raise Refused(message) from error
    return "\n".join(texts)


def parameter_names(path: Path) -> set[str]:
    """Names that the one cell tagged `parameters` assigns. Raises Refused if there is not one."""
    tagged = [c for c in code_cells(path) if "parameters" in c["metadata"].get("tags", ())]
    if len(tagged) != 1:
        raise Refused(f"{path.name} has {len(tagged)} cells tagged `parameters`, not one")
    assigned = [node for node in ast.parse(source(tagged[0])).body if isinstance(node, ast.Assign)]
    return {target.id for node in assigned for target in node.targets}


def check_parameters(path: Path, parameters: dict) -> None:
    """Raises Refused for a parameter that the notebook does not have; papermill only warns."""
    known = parameter_names(path)
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise Refused(
            f"{path.name} has no parameter {', '.join(unknown)}, only {', '.join(sorted(known))}"
        )


def check(path: Path, parameters: dict) -> None:
    """Raises Refused for what can be known before a kernel starts."""
    check_parameters(path, parameters)
    guards.kernel()


def environment(profile: Profile) -> dict[str, str | None]:
    """The variables of a notebook's kernel; None removes one."""
    threads = {name: str(profile.task_threads) for name in task_env.THREAD_VARIABLES}
    threads |= {name: str(profile.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return {
        **threads,
        **seeding.VARIABLES,
        "HF_HUB_OFFLINE": "1" if profile.offline else None,
        "TQDM_DISABLE": "1",
        "DIPLLM_PROGRESS": "plain",
        "DIPLLM_STATIC": "1",  # pictures in place of widgets, which need a running kernel
        "JPY_SESSION_NAME": None,
    }


def _manager(log):
    """A kernel manager class whose kernels write their own stdout and stderr into `log`."""
    from jupyter_client.manager import AsyncKernelManager

    class QuietManager(AsyncKernelManager):
        async def start_kernel(self, **options):
            await super().start_kernel(stdout=log, stderr=log, **options)

    return QuietManager


def _name(cell: dict, number: int) -> str:
    """`cell 7 (x = load())`."""
    lines = [line.strip() for line in source(cell).splitlines() if line.strip()]
    return f"cell {number} ({lines[0] if lines else 'empty'})"


def _last_line(name: str, value: str) -> str:
    """`ValueError: text` in one line without colours."""
    lines = [line for line in ANSI.sub("", value).splitlines() if line.strip()]
    return f"{name}: {lines[-1].strip()}" if lines else name


class _Place:
    """Remembers the running cell; told by a hook, since marks in the copy are no evidence."""

    def __init__(self):
        self.text = "before its first cell"
        self.number = 0

    def __call__(self, cell: dict, cell_index: int) -> None:
        if not INJECTED & set(cell["metadata"].get("tags", ())):
            self.number += 1
            self.text = _name(cell, self.number)


def run(path: Path, parameters: dict, copy: Path, profile: Profile) -> None:
    """Run `path` into the executed `copy` and judge it. Raises Failed, before the start Refused."""
    check(path, parameters)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as log, task_env.variables(environment(profile)):
        try:
            notebook = _call(path, parameters, copy, log)
        except Failed:
            _pass_on(log)
            raise
        _pass_on(log)
        judge(notebook)
        _write(widgets.without(notebook), copy)


def _write(notebook: dict, copy: Path) -> None:
    """Replace the executed copy. Raises Failed if it cannot be written."""
    import nbformat

    text = nbformat.writes(nbformat.from_dict(notebook))
    try:
        files.write_text(copy, text + "\n")
    except OSError as error:
        raise _unwritten("its executed copy", error) from error


def _unwritten(where: str, error: OSError) -> Failed:
    """The failure of a full disk or a folder without rights."""
    cause = _last_line(type(error).__name__, str(error))
    return Failed(where, cause, "make room on the disk and run the same command to go on")


def _call(path: Path, parameters: dict, copy: Path, log):
    """The executed notebook; papermill's and the kernel's errors become Failed."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    place = _Place()
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # all it has to say is in Failed
    try:
        return papermill.execute_notebook(
            path,
            copy,
            parameters,
            kernel_name=guards.KERNEL,
            language="python",
            start_timeout=START_SECONDS,
            progress_bar=False,
            kernel_manager_class=_manager(log),
            on_cell_start=place,
        )
    except papermill.PapermillExecutionError as error:
        cause = _last_line(error.ename, error.evalue)
        raise Failed(place.text, cause, "mend this and run the same command to go on") from error
    except KeyboardInterrupt:
        # the event loop would report the interrupted cell a second time when it is collected
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    except DeadKernelError as error:
        cause = "the kernel died: killed, or out of memory"
        raise Failed(place.text, cause, "free memory and run the same command to go on") from error
    except OSError as error:  # the executed copy could not be written
        raise _unwritten(place.text, error) from error
    except RuntimeError as error:
        cause = _last_line(type(error).__name__, str(error))
        raise Failed(place.text, cause, "run the same command again") from error


def _pass_on(log) -> None:
    """Print what the kernel's process wrote itself, without the known noise, to stderr."""
    log.seek(0)
    for line in log.read().decode("utf-8", "replace").splitlines():
        if not KERNEL_NOISE.search(line):
            print(line, file=sys.stderr)


def judge(notebook: dict) -> None:
    """Raises Failed unless each code cell ran once, in order, without error or unknown stderr."""
    number = count = 0
    for cell in notebook["cells"]:
        own = not INJECTED & set(cell["metadata"].get("tags", ()))
        number += own
        if cell["cell_type"] != "code" or not source(cell).strip():
            continue
        count += 1
        fault = _fault(cell, count)
        if fault:
            raise Failed(_name(cell, number), fault, "mend this and run the same command to go on")


def _fault(cell: dict, count: int) -> str | None:
    """What disqualifies a cell that should be the `count`-th to run."""
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            return _last_line(output["ename"], output["evalue"])
    if cell["execution_count"] != count:
        return f"ran as number {cell['execution_count']}, not {count}: the notebook ended early"
    for output in cell["outputs"]:
        if output["output_type"] == "stream" and output["name"] == "stderr":
            for line in "".join(output["text"]).splitlines():
                if not any(pattern.search(line) for pattern in ALLOWED):
                    return f"wrote to stderr: {line.strip()}"
    return None
