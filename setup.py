"""Build the one compiled module; everything else is declared in pyproject.toml.

Without a C compiler the install still succeeds, and SciPy does the same work more slowly. CROWDPRISM_BOUNDSCHECK=1 in
the environment builds with bounds checks, as a test does.
"""

import os

from setuptools import Extension, setup

expectation = Extension(
    "crowdprism.aggregators._expectation",
    ["src/crowdprism/aggregators/_expectation.pyx"],
    extra_compile_args=[] if os.name == "nt" else ["-O3"],  # inner loops over classes become vector instructions
    optional=True,
)
expectation.cython_directives = {"boundscheck": bool(os.environ.get("CROWDPRISM_BOUNDSCHECK"))}

setup(ext_modules=[expectation])
