"""What every measurement is stored with: machine, versions, and the way to a results file."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from crowdprism.files import replacing_file
from crowdprism.results.fit_result import installed_versions

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Processor, cores and memory, as far as the system tells; no names of hosts."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": model, "cores": cores, "system": platform.system()}


def store(name: str, record: dict[str, Any]) -> Path:
    """Write a record with machine and versions to results/<name>.json, whole or not at all."""
    path = RESULTS / f"{name}.json"
    with replacing_file(path) as fresh:
        whole = {"machine": machine(), "versions": installed_versions(), **record}
        fresh.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    return path
