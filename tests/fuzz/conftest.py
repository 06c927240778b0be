"""Targets of atheris are programs, not tests: `make fuzz` installs what they need and runs them."""

collect_ignore_glob = ["atheris_*.py"]
