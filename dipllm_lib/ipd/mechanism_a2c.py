"""The three steps with A2C: the work of one task.

Each step has a stream of random numbers, and so first weights, of its own. The frozen agent of step
2 plays its policy with the floor of its last iteration.
"""

from dataclasses import replace

from dipllm_lib.ipd import a2c_runs, evaluate, extorters, mechanism_task, ppi_data, ppi_runs, steps
from dipllm_lib.ipd.a2c import A2C, repeated
from dipllm_lib.ipd.a2c_games import Actor as Policy
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.mechanism_task import Task
from dipllm_lib.ipd.models import Stack


def work(task: Task) -> dict:
    """Train and measure; the result of `mechanism.run` with tables as DataFrames."""
    own = steps.a2c(task.settings, task.sizes, task.step)
    wanted = _training(task, own)
    found = a2c_runs.train(wanted)
    tables = _measured(task, wanted, found)
    if task.step == "step2":
        tables |= _meters(task, wanted, found)
    count = len(task.agents) * own.model.rounds * own.games * own.iterations
    return {"steps": count, "seconds": float(found.seconds.sum()), "gap": None, "tables": tables}


def _training(task: Task, own: A2CSettings) -> a2c_runs.Task:
    """The training of a step as a task of `a2c_runs`."""
    blocks, every = -(-own.iterations // own.block), task.settings.a2c_probe_blocks
    wanted = a2c_runs.Task(
        own,
        task.seeds,
        steps.probes(task.settings, own.pool, task.step),
        tuple(sorted({1, *range(every, blocks, every), blocks})),
        stream=task.step,
        folder=task.own,
    )
    if task.step == "step2":
        victims = repeated(_trained(task, "step1"), 2)
        return replace(wanted, frozen=Policy(victims, _floor(task, "step1")))
    return replace(wanted, start=_trained(task, "step2")) if task.step == "step3" else wanted


def _measured(task: Task, wanted: a2c_runs.Task, found: a2c_runs.Result) -> dict:
    """Tables of a finished training, with the further evaluators and panel F."""
    end, pool, training = wanted.settings.iterations, wanted.settings.pool, found.training
    if task.step == "step2":
        training = training.replace({"opponent": {evaluate.LEARNER: evaluate.FROZEN}})
    further = mechanism_task.extra(task, pool, found.trained.actors(), end)
    probed = [(found.probes, found.rounds), *further]
    if task.step == "step3":
        floor = _floor(task, "step2")
        before = {n: Policy(wanted.start, share * floor) for n, share in evaluate.NOISE.items()}
        probed.append(mechanism_task.probe(before, task, 0, wanted.probe))
    return mechanism_task.tables(training, probed, "iteration", end)


def _meters(task: Task, wanted: a2c_runs.Task, found: a2c_runs.Result) -> dict:
    """Tables `line` and `fits`."""
    alone, copies, floor = _trained(task, "step1"), [], wanted.frozen.epsilon
    for i in range(task.sizes.copies):
        streams = ppi_data.generators(task.agents[::2], "a2c copy", i)
        moved = extorters.perturbed(alone, extorters.size(i, task.sizes.copies), streams)
        copies.append(Policy(repeated(moved, 2), floor))
    whom = found.trained.actors()["on"], wanted.frozen, copies
    return mechanism_task.meters(task, wanted.settings.pool, *whom, wanted.settings.iterations)


def actors(task: Task) -> dict[tuple[int, int], Policy]:
    """(seed, seat) -> a trained agent alone, with the floor of its last iteration."""
    stack, floor = _trained(task, task.step), _floor(task, task.step)
    return {agent: Policy(stack.slice(i), floor) for i, agent in enumerate(task.agents)}


def _trained(task: Task, step: str) -> Stack:
    """The stack of this step or an earlier one of A2C."""
    settings = steps.a2c(task.settings, task.sizes, step)
    folder = task.own if step == task.step else task.earlier(step)
    state = ppi_runs.load(folder / "state.npz")
    state.pop("seconds", None)
    return A2C(settings, task.seeds, step).load(state).stack


def _floor(task: Task, step: str) -> float:
    """Epsilon of the last iteration of a step."""
    settings = steps.a2c(task.settings, task.sizes, step)
    return settings.epsilon.at(settings.iterations - 1)
