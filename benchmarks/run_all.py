"""Run every benchmark, or with --studies every study behind docs/results, one after the other.

    python benchmarks/run_all.py [--studies] [name ...]

A script that fails is reported and the rest goes on; the exit code says whether all went well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
STUDY_MARK = "Study:"  # the first word of the docstring of scripts that write docs/results


def scripts(*, studies: bool) -> list[Path]:
    """Scripts beside this one that can be run, by what their docstring says they are."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.py")) if path.name != "run_all.py"}
    runnable = {path: text for path, text in texts.items() if '__name__ == "__main__"' in text}
    return [path for path, text in runnable.items() if text.lstrip('"').startswith(STUDY_MARK) == studies]


def main() -> None:
    """Run the chosen scripts in this Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these scripts")
    parser.add_argument("--studies", action="store_true", help="the long studies instead of the benchmarks")
    options = parser.parse_args()
    chosen = [path for path in scripts(studies=options.studies) if not options.names or path.stem in options.names]
    failed = []
    for place, path in enumerate(chosen, 1):
        print(f"[{place}/{len(chosen)}] {path.stem}", flush=True)
        begun = time.monotonic()
        if subprocess.run([sys.executable, str(path)], check=False).returncode:
            failed.append(path.stem)
        print(f"{path.stem}: {time.monotonic() - begun:.0f} s", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
