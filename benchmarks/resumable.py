"""Studies that can be interrupted: each job is one line of a rows file, and only missing jobs are run."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Job = dict[str, Any]
Row = dict[str, Any]


def key_of(job: Job) -> str:
    """What identifies a job in the rows file."""
    return json.dumps(job, sort_keys=True)


def read_rows(path: Path) -> dict[str, Row]:
    """Rows by the key of their job; a last line that was cut short is left out and measured again."""
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[key_of(row["job"])] = row
    return rows


def measure(jobs: Sequence[Job], run: Callable[[Job], Row], path: Path, *, processes: int = 2) -> list[Row]:
    """Run the jobs that have no row yet, tell progress and time left; return the rows of all jobs in order.

    `run` must be a function of a module (it is sent to other processes by name).
    """
    done = read_rows(path)
    missing = [job for job in jobs if key_of(job) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(jobs) - len(missing)} of {len(jobs)} rows are there", flush=True)
    begun = time.monotonic()
    if missing:
        context = multiprocessing.get_context("spawn")
        with context.Pool(processes) as pool, path.open("a", encoding="utf-8") as file:
            for place, row in enumerate(pool.imap_unordered(run, missing), 1):
                file.write(json.dumps(row) + "\n")
                file.flush()
                left = (time.monotonic() - begun) / place * (len(missing) - place)
                told = ", ".join(f"{name} {value}" for name, value in row.items() if name != "job")
                print(f"[{place}/{len(missing)}, {left / 60:.0f} min left] {row['job']}: {told}", flush=True)
    done = read_rows(path)
    return [done[key_of(job)] for job in jobs if key_of(job) in done]
