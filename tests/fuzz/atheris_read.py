"""Coverage-guided search for bytes that break `read_annotations`; run by `make fuzz`.

    python tests/fuzz/atheris_read.py CORPUS_FOLDER -max_total_time=600

The samples of benchmarks/format_samples.py are the first corpus. A find is written beside the corpus: shrink it, add it
to tests/fuzz/test_finds.py, and mend the reader.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["crowdprism.formats", "crowdprism.annotations"]):
    from crowdprism.errors import CrowdprismError
    from crowdprism.formats import read_annotations

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
FILE = Path(tempfile.mkdtemp()) / "labels"


def read(data: bytes) -> None:
    """Read the bytes as a file; our own errors are the expected end."""
    FILE.write_bytes(data)
    try:
        read_annotations(FILE, max_size="64MB")
    except CrowdprismError as error:
        if "internal error" in str(error):
            raise


def main() -> None:
    """Fill the corpus with samples and search."""
    from fuzz_files import samples

    corpus = next((Path(given) for given in sys.argv[1:] if not given.startswith("-")), None)
    for number, sample in enumerate(samples() if corpus is not None else ()):
        for place, data in enumerate(sample.files.values()):
            (corpus / f"sample-{number}-{place}").write_bytes(data)
    warnings.simplefilter("ignore")
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
