"""What fuzzing programs share: options, attempts in worker processes under limits of time and memory, and a tally.

With `--save FILE` the tally of every part of the work is added to a file, a JSON line each; a program that is started
again with the same seed and file leaves out the parts that it finds there, and prints the sum.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SECONDS_ALLOWED = 5  # of the processor: others may keep it busy
MEMORY_ALLOWED = 3 << 30  # address space of a worker: libraries take about 1.5 GB of it before anything is read
BATCH = 10_000  # attempts of a process: its start takes as long as some hundred of them
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}  # small files: more threads wait for each other
SECONDS_TO_START = 60
PATIENCE = 60  # a worker that is silent for so long hangs where Python cannot stop it
OUTCOMES = ("read", "refused", "foreign exception", "hang", "crash", "uncounted rows", "silently wrong")

Attempt = Callable[[str, int, int, Path], tuple[str, str]]
"""Name of a sample, seed, index and an empty folder to how it ended, and for what should not happen, where."""


class TooSlowError(BaseException):
    """An attempt took longer than allowed."""


@contextmanager
def time_limit(seconds: float | None = SECONDS_ALLOWED) -> Iterator[None]:
    """Raise `TooSlowError` after so many seconds of the processor, in a process with a handler of SIGPROF."""
    signal.setitimer(signal.ITIMER_PROF, seconds or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def ending_of(error: BaseException) -> tuple[str, str]:
    """How an attempt ended that raised this."""
    from crowdprism.errors import CrowdprismError

    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, CrowdprismError) and isinstance(error.__cause__, MemoryError):
        error = error.__cause__
    if isinstance(error, CrowdprismError):
        return ("uncounted rows", str(error)) if "internal error" in str(error) else ("refused", "")
    kind = "hang" if isinstance(error, TooSlowError) else "foreign exception"
    return kind, f"{type(error).__name__}: {''.join(traceback.format_exception(error, limit=-3))}"


@dataclass
class Tally:
    """What happened to the mutants of one sample."""

    outcomes: Counter[str] = field(default_factory=Counter)
    finds: dict[str, str] = field(default_factory=dict)
    peak: int = 0  # bytes resident

    def note(self, ended: str, where: str, how_to_repeat: str, peak: int) -> None:
        """Count one mutant."""
        self.outcomes[ended] += 1
        self.peak = max(self.peak, peak)
        if where:
            self.finds.setdefault(f"{ended}: {where}", how_to_repeat)

    def add(self, other: Tally) -> None:
        """Take in the counts of another tally."""
        self.outcomes += other.outcomes
        self.finds = other.finds | self.finds
        self.peak = max(self.peak, other.peak)


Task = tuple[str, int]  # name of a sample, index of the mutant


def stop_slow_work() -> None:
    """Let the timer of `time_limit` raise `TooSlowError` in this process."""

    def stop(*_: Any) -> None:
        raise TooSlowError

    signal.signal(signal.SIGPROF, stop)


def work(pipe: Connection, attempt: Attempt, tasks: list[Task], seed: int, memory: int) -> None:
    """Make attempts and send what happened to each."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # polars also prints its panics
    stop_slow_work()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for name, index in tasks:
            place = Path(folder, "0")
            place.mkdir()
            ended, where = attempt(name, seed, index, place)
            pipe.send((ended, where, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
            shutil.rmtree(place)


def run_batch(attempt: Attempt, tasks: list[Task], seed: int, memory: int) -> dict[str, Tally]:
    """Make some attempts in a process of their own; one that dies or hangs is replaced."""
    tallies: dict[str, Tally] = {}
    context = multiprocessing.get_context("spawn")
    done, silent = 0, -1
    while done < len(tasks):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=work, args=(sender, attempt, tasks[done:], seed, memory))
        worker.start()
        sender.close()
        begun, is_well = done, True
        while is_well and done < len(tasks):
            name, index = tasks[done]
            try:
                is_well = receiver.poll(PATIENCE if done > begun else PATIENCE + SECONDS_TO_START)
                ended, where, peak = receiver.recv() if is_well else ("hang", "killed", 0)
            except EOFError:
                ended, where, peak, is_well = "crash", "died", 0, False
            if ended == "hang" and not is_well and silent != done:
                silent = done  # once more: the machine may have slept
                break
            repeat = f"--only {name!r} --seed {seed} --index {index}"
            tallies.setdefault(name, Tally()).note(ended, where, repeat, peak)
            done += 1
        if not is_well:
            worker.kill()
        worker.join()
    return tallies


def fuzz(
    attempt: Attempt,
    names: list[str],
    *,
    count: int,
    seed: int,
    processes: int,
    memory: int = MEMORY_ALLOWED,
    save: Path | None = None,
) -> dict[str, Tally]:
    """Make attempts in worker processes, the same number for each name, and tally them by name."""
    os.environ |= {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
    tasks = [(name, index) for index in range(-(-count // len(names))) for name in names]
    parts = {start: tasks[start : start + BATCH] for start in range(0, len(tasks), BATCH)}
    done = saved_parts(save, seed)
    tallies: dict[str, Tally] = {}

    def run(start: int) -> dict[str, Tally]:
        if start not in done:
            done[start] = run_batch(attempt, parts[start], seed, memory)
            if save is not None:
                samples = {name: vars(tally) for name, tally in done[start].items()}
                with save.open("a") as file:
                    file.write(json.dumps({"seed": seed, "start": start, "samples": samples}) + "\n")
        return done[start]

    with ThreadPoolExecutor(processes) as pool:
        for found in pool.map(run, parts):
            for name, one in found.items():
                tallies.setdefault(name, Tally()).add(one)
    return tallies


def saved_parts(save: Path | None, seed: int) -> dict[int, dict[str, Tally]]:
    """What was done before, by the place at which each part begins."""
    lines = save.read_text().splitlines() if save is not None and save.exists() else []
    records = [record for record in map(json.loads, lines) if record["seed"] == seed]
    return {
        record["start"]: {
            name: Tally(Counter(one["outcomes"]), one["finds"], one["peak"]) for name, one in record["samples"].items()
        }
        for record in records
    }


@dataclass(frozen=True)
class Program:
    """A fuzzing program: what it attempts, and how it shows one attempt."""

    attempt: Attempt
    names: list[str]
    show: Callable[[str, int, int], None]
    memory: int = MEMORY_ALLOWED


def main(description: str, programs: dict[str, Program]) -> int:
    """Parse the arguments and run; the first program is the default, another is chosen by its option."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many attempts")
    first, *others = programs
    parser.set_defaults(program=first)
    for name in others:
        parser.add_argument(f"--{name}", dest="program", action="store_const", const=name, help=f"{name} instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", type=Path, help="file to which the tally of each part is added")
    parser.add_argument("--only", help="name of a sample")
    parser.add_argument("--index", type=int, help="with --only: repeat this attempt")
    given = parser.parse_args()
    program = programs[given.program]
    if given.index is not None:
        stop_slow_work()
        program.show(given.only, given.seed, given.index)
        return 0
    names = [name for name in program.names if given.only in (None, name)]
    begun = time.perf_counter()
    options = {"count": given.count, "seed": given.seed, "processes": given.processes, "save": given.save}
    tallies = fuzz(program.attempt, names, memory=program.memory, **options)
    return 0 if print_tallies(tallies, time.perf_counter() - begun) else 1


def print_tallies(tallies: dict[str, Tally], seconds: float) -> bool:
    """Print the counts by sample and the finds; tell whether there was none."""
    print(f"{'sample':28}" + "".join(f"{ended:>18}" for ended in OUTCOMES) + f"{'peak MB':>10}")
    total = Tally()
    for name, tally in sorted(tallies.items()):
        total.add(tally)
        print_line(name, tally)
    print_line("all", total)
    count = total.outcomes.total()
    print(f"{count} mutants in {seconds:.0f} s ({count / max(seconds, 1e-9):.0f} per second)")
    for find, repeat in list(total.finds.items())[:40]:
        print(f"\n{repeat}\n{find}")
    return not total.finds


def print_line(name: str, tally: Tally) -> None:
    """Print the counts of one sample."""
    print(f"{name[:27]:28}" + "".join(f"{tally.outcomes[e]:18}" for e in OUTCOMES) + f"{tally.peak / 2**20:10.0f}")
