"""Tables in memory as documents: frames of pandas, polars and pyarrow, and data sets of Hugging Face."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdprism.annotations.frames import columns_of_frame, is_frame
from crowdprism.formats.documents import Document, typed_series
from crowdprism.formats.raw_annotations import ReadingOptions


def is_table(source: Any) -> bool:
    """Tell whether this is a table in memory."""
    return is_frame(source) or is_hugging_face(source)


def is_hugging_face(source: Any) -> bool:
    """Tell whether this is a `datasets.Dataset`; the package need not be installed."""
    return type(source).__module__.split(".")[0] == "datasets" and hasattr(source, "features")


def frame_document(source: Any, options: ReadingOptions) -> Document:
    """A table in memory as a document with typed columns."""
    document = Document(f"the {type(source).__name__}", data=b"", options=options)
    document.container = "parquet"
    document.frame = hugging_face_frame(source) if is_hugging_face(source) else polars_frame(source)
    return document


def hugging_face_frame(dataset: Any) -> pl.DataFrame:
    """The columns of a data set; classes are named where the data set knows their names."""
    frame = pl.DataFrame({name: typed_series(name, list(dataset[name])) for name in dataset.column_names})
    for name, feature in dataset.features.items():
        names = getattr(feature, "names", None)
        if names and frame[name].dtype == pl.Int64:
            codes = [names[code] if code is not None and code >= 0 else None for code in frame[name]]
            frame = frame.with_columns(pl.Series(name, codes, dtype=pl.String))
    return frame


def polars_frame(frame: Any) -> pl.DataFrame:
    """Any frame as one of polars; without pyarrow, which pandas would need to convert."""
    if isinstance(frame, pl.DataFrame):
        return frame
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]  # pyarrow's columns are no names
    if not hasattr(frame, "column_names"):
        frame = frame.rename(columns=dict(zip(frame.columns, names, strict=True)))
    columns, _ = columns_of_frame(frame, dict(zip(names, names, strict=True)))
    return pl.DataFrame({name: as_series(name, values) for name, values in columns.items()})


def as_series(name: str, values: Any) -> pl.Series:
    """A column as polars holds it."""
    if isinstance(values, pl.Series):
        return values.alias(name)
    return pl.Series(name, values) if isinstance(values, np.ndarray) else typed_series(name, values)
