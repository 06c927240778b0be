"""Lets `python -m crowdprism` be the command line."""

from crowdprism.cli import main

main()
