"""What answers mean to `crowdprism aggregate`: several choices per item (--multi), abstentions (--abstain)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crowdprism as cp
from crowdprism.cli.options import ReadingOption, ReadingOptions, split_names, standard_input_as_file
from crowdprism.cli.run_folder import REPORT, rounded, run_target, save_csv
from crowdprism.cli.screen import log_text, print_csv, print_json, print_lines, print_records, remark, to_records
from crowdprism.errors import InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.aggregators import Aggregator
    from crowdprism.aggregators.multi_label import MultiLabelResult
    from crowdprism.annotations.choice_sets import MultiLabelAnnotations


@dataclass(frozen=True)
class ChoiceOptions:
    multi: bool = ReadingOption(False, "--multi", help="Answers hold several choices: lists, a|b cells, 0/1 columns.")
    separator: str = ReadingOption("|", help="What separates choices in a cell, with --multi.")
    abstain: str | None = ReadingOption(None, help="Answers such as unsure: used as evidence, never as label.")

    def use_abstentions(self, aggregator: Aggregator, annotations: cp.Annotations) -> None:
        """Let the aggregator learn from the answers that --abstain names."""
        if self.abstain is not None:
            from crowdprism.aggregators.abstentions import use_abstentions
            from crowdprism.formats.raw_annotations import folded

            own = {folded(name): name for name in annotations.classes.tolist()}
            names = [own.get(folded(name), name) for name in split_names(self.abstain)]
            use_abstentions(aggregator, annotations, names)

    def aggregate(
        self,
        aggregator: Aggregator,
        files: Sequence[Path],
        reading: ReadingOptions,
        output: Path | None,
        table: Path | None,
        *,
        report: bool,
        force: bool,
        as_json: bool,
    ) -> None:
        from crowdprism.aggregators.multi_label import fit_choices
        from crowdprism.formats.choices import read_choices_with_report

        if reading.skip_label is not None or reading.fold_classes:
            raise InvalidParameterError("--multi takes neither --skip-label nor --fold-classes. Leave them out.")
        options = {name: value for name, value in reading.chosen().items() if name != "classes_ordered"}
        with run_target(output, kind="choices", force=force, inputs=[*files, reading.gold_file]) as fresh:
            with standard_input_as_file(files) as paths:
                annotations, account = read_choices_with_report(paths, separator=self.separator, **options)
            remark(str(account))
            annotations = self.add_gold(annotations, reading)
            result = fit_choices(annotations, aggregator)
            if fresh is not None:
                self.write(fresh, result, annotations, report=report)
        if table is not None:
            save_csv(table, self.label_columns(result))
            remark(f"wrote {table}")
        if as_json:
            print_json(self.to_record(result, annotations))
        elif output is None and table is None:
            print_csv(self.label_columns(result))
        elif output is not None:
            print_summary(result, annotations)
            remark(f"wrote {output}: labels.csv, annotators.csv{', report.html' if report else ''}")

    def add_gold(self, annotations: MultiLabelAnnotations, reading: ReadingOptions) -> MultiLabelAnnotations:
        """Add the true choices of --gold-file, joined by the separator."""
        if reading.gold_file is None:
            return annotations
        from crowdprism.formats.gold_file import read_gold
        from crowdprism.formats.raw_annotations import split

        found = read_gold(reading.gold_file, annotations.sets.items, annotations.choices, max_size=reading.max_size)
        known = annotations.with_gold({item: split(label, self.separator) for item, label in found.pairs})
        remark(f"{reading.gold_file}: gold of {len(known.sets.gold_by_name())} items")
        return known

    def write(self, fresh: Path, result: MultiLabelResult, annotations: MultiLabelAnnotations, *, report: bool) -> None:
        from crowdprism.report.choices_page import annotator_columns, choices_page

        result.write_into(fresh)
        save_csv(fresh / "labels.csv", self.label_columns(result))
        save_csv(fresh / "annotators.csv", annotator_columns(result, annotations))
        if report:
            (fresh / REPORT).write_text(choices_page(result, annotations), encoding="utf-8")
        (fresh / "log.txt").write_text(log_text(), encoding="utf-8", errors="backslashreplace")

    def label_columns(self, result: MultiLabelResult) -> dict[str, Any]:
        """Items, labels joined by the separator, confidence of the least certain, the probability of each choice."""
        columns: dict[str, Any] = {
            "item": result.items.tolist(),
            "labels": [self.separator.join(map(str, one)) for one in result.labels()],
        }
        if result.confidence is not None:
            columns["confidence"] = rounded(result.confidence.min(axis=1))
        shares = zip(result.choices.tolist(), result.probabilities.T, strict=True)
        return columns | {f"probability:{choice}": rounded(share) for choice, share in shares}

    def to_record(self, result: MultiLabelResult, annotations: MultiLabelAnnotations) -> dict[str, Any]:
        from crowdprism.report.choices_page import annotator_columns, choice_columns

        sure = [None] * len(result.items) if result.confidence is None else result.confidence.min(axis=1)
        columns = {"item": result.items, "labels": result.labels(), "probabilities": result.probabilities}
        return {
            "method": result.method,
            "choices": to_records(choice_columns(result, annotations)),
            "labels": to_records({**columns, "confidence": sure}),
            "annotators": to_records(annotator_columns(result, annotations)),
        }


def print_summary(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> None:
    from crowdprism.report.choices_page import annotator_columns, choice_columns, choice_lines

    print_lines(*choice_lines(result, annotations))
    print_records("Choices", to_records(choice_columns(result, annotations)))
    people = annotator_columns(result, annotations)
    print_records("Annotators who miss most", to_records(people, people["finds"].argsort(kind="stable")[:10]))
