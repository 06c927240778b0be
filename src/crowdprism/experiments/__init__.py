"""Experiments: a table is a data file; one command fills it and compares it with the published numbers.

A **study** is one TOML file (`paper/T2.toml`, or your own): columns are cells (a data set and who labels it), rows
are methods with parameters and grids, and it holds the published numbers, known deviations and budgets.

    study = load_study("T2")                              # or load_study("my_comparison.toml")
    plan = make_plan(study, "quick", methods=["nn-mv"])   # study and budget -> single fits
    store = RowStore("rows.jsonl")
    run(plan, store, processes=2)                         # runs fits without a row; Ctrl-C loses nothing
    table = summarize(plan, store.read())                 # selection on the grid, means, spreads, differences
    write_page(table, "results/")                         # Markdown, CSV and a plot

`crowdprism reproduce T2 --budget quick` does all of this. To add a study, write a TOML file.
"""

from crowdprism.experiments.fits import Fit, Plan, RowStore, TableResult, make_plan, summarize
from crowdprism.experiments.measuring import Interrupted, RunReport, run
from crowdprism.experiments.pages import write_page
from crowdprism.experiments.spec import (
    Budget,
    Cell,
    Crowd,
    Data,
    Deviation,
    Method,
    Published,
    Study,
    load_study,
    read_study,
    study_names,
)

__all__ = ["Fit", "Plan", "RowStore", "make_plan", "Interrupted", "RunReport", "run", "write_page"]
__all__ += ["Budget", "Cell", "Crowd", "Data", "Deviation", "Method", "Published", "Study"]
__all__ += ["load_study", "read_study", "study_names", "TableResult", "summarize"]
