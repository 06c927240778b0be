"""Which column of a table is the item, which the annotator, which the label: by the names that exports use."""

from __future__ import annotations

import re

# Names as they occur in exports, compared without case and punctuation; the first that a table has is taken.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "itemid", "task", "taskid", "example", "exampleid", "object", "objectid", "unit", "unitid", "instance",
        "instanceid", "sample", "sampleid", "question", "questionid", "document", "documentid", "docid", "image",
        "imageid", "imagefilename", "filename", "file", "text", "sentence", "tweetid", "dataid", "id", "index",
    ),
    "annotator": (
        "annotator", "annotatorid", "worker", "workerid", "performer", "rater", "raterid", "labeler", "labelerid",
        "labeller", "labellerid", "coder", "coderid", "judge", "judgeid", "user", "userid", "username", "participant",
        "participantid", "person", "contributor", "contributorid", "expert", "source", "completedby", "email",
    ),
    "label": (
        "label", "answer", "response", "value", "annotation", "judgment", "judgement", "class", "category", "choice",
        "chosenlabel", "givenlabel", "vote", "rating", "verdict", "decision", "output", "classification",
    ),
    "weight": ("weight",),
    "duration": ("duration", "times", "durations", "seconds", "leadtime", "timespentinseconds", "worktimeinseconds"),
    "timestamp": ("timestamp", "createdat", "submittedat", "submittime", "submissiontime", "datetime"),
    "gold": ("gold", "goldlabel", "truth", "truelabel", "groundtruth", "trueclass", "golden"),
}  # fmt: skip
REQUIRED = ("item", "annotator", "label")


def simplified(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_columns(
    columns: list[str], given: dict[str, str] | None = None, synonyms: dict[str, tuple[str, ...]] = SYNONYMS
) -> dict[str, str]:
    """Map roles to columns: as given, else by name."""
    given = dict(given or {})
    free = {simplified(column): column for column in reversed(columns) if column not in given.values()}
    for role, names in synonyms.items():
        if role not in given:
            name = next((name for name in names if name in free), None)
            if name is not None:
                given[role] = free.pop(name)
    return {role: given[role] for role in synonyms if role in given}
