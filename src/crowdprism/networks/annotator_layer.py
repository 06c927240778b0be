"""Confusion matrices of annotators as trainable parameters: always valid, started by a stated diagonal.

Free logits with a row softmax, as the reference implementation of Ibrahim et al. (2023) has them (transposed), not
the softmax after each step of the algorithm boxes, which contracts every matrix to uniform.

Three forms, from rich to sparing:

- `FreeConfusions`: n_classes x n_classes logits per annotator;
- `PooledConfusions`: the crowd's common logits plus a residual per annotator, which a penalty shrinks;
- `SkillConfusions`: one skill per annotator, shared class difficulty and shared off-diagonal. Its memory is
  n_annotators + n_classes squared, and it learns from one label per item where free matrices collapse.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.errors import InvalidParameterError
from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.losses import log_columns, softmax_columns
from crowdprism.networks.row_table import ALL_ROWS_LIMIT, RowTable
from crowdprism.networks.volume import confusion_gram

Form = Literal["free", "pooled", "skill"]
SMALLEST_START = 1e-6  # zeros of a start become this, so that logits are finite
SKILL_MARGIN = 1e-3  # a start that is never or always right becomes a skill this far from certainty
GRAM_CHUNK = 2**20  # numbers of confusions expanded at once when the exact Gram is formed


def diagonal_logit(diagonal: float, n_classes: int) -> float:
    """Logit c such that softmax of c times a unit vector has the given probability on its diagonal.

    Examples
    --------
    >>> round(diagonal_logit(0.9, 10), 3)
    4.394
    """
    if not 1 / n_classes < diagonal < 1:
        raise InvalidParameterError(
            f"start_diagonal must be above chance (1/{n_classes}) and below 1, not {diagonal}: classes are held apart "
            "by it."
        )
    return math.log((n_classes - 1) * diagonal / (1 - diagonal))


def identity_diagonal(n_classes: int) -> float:
    """Diagonal probability of the reference start, whose logits are the identity: e / (e + n_classes - 1)."""
    return math.e / (math.e + n_classes - 1)


def diagonal_confusions(n_annotators: int, n_classes: int, diagonal: float) -> Tensor:
    """Equal confusions with the given diagonal and uniform errors: (n_annotators, n_classes, n_classes)."""
    diagonal_logit(diagonal, n_classes)
    matrix = torch.full((n_classes, n_classes), (1 - diagonal) / (n_classes - 1))
    matrix.fill_diagonal_(diagonal)
    return matrix.expand(n_annotators, -1, -1)


class AnnotatorLayer(nn.Module, ABC):
    """How each annotator confuses the classes: a crowd head's parameters.

    `table` holds what belongs to single annotators; shared parts are ordinary parameters.
    """

    form: str
    table: RowTable

    @abstractmethod
    def block_log_confusions(self, batch: Batch) -> Tensor:
        """Log confusions of the rows that a step works on: (rows, true class, given label), with gradient."""

    def block_confusions(self, batch: Batch) -> Tensor:
        """Confusions of the rows that a step works on: (rows, true class, given label), with gradient."""
        return self.block_log_confusions(batch).exp()

    @abstractmethod
    def log_confusions(self, annotators: Tensor | slice | None = None) -> Tensor:
        """Log confusions of chosen annotators, or of all: (annotator, true class, given label)."""

    @abstractmethod
    def deviation(self, batch: Batch) -> Tensor:
        """(rows,) half the squared distance of each working row from what it is shrunk to."""

    def log_columns(self, batch: Batch) -> Tensor:
        """(annotation, true class) log probability of each given label under each true class."""
        return log_columns(self.block_log_confusions(batch), self.table.place(batch), batch.label)

    @property
    def n_annotators(self) -> int:
        """Number of annotators."""
        return int(self.table.values.shape[0])

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of classes."""

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """(annotator, true class, given label), rows sum to one."""
        return self.log_confusions().exp()

    @torch.no_grad()
    def gram(self) -> Tensor:
        """Exact Σ_m C_m C_mᵀ over all annotators in float64, formed in chunks."""
        step = max(1, GRAM_CHUNK // self.n_classes**2)
        total = torch.zeros(self.n_classes, self.n_classes, dtype=torch.float64, device=self.table.values.device)
        for first in range(0, self.n_annotators, step):
            total += confusion_gram(self.log_confusions(slice(first, first + step)).exp().double())
        return total


class LogitConfusions(AnnotatorLayer):
    """Forms with a logit for each entry: the confusions are the row softmax of an annotator's row plus `common`."""

    common: nn.Parameter | None  # (true class, given label), trained with the rows where there is one

    @abstractmethod
    def shift(self, batch: Batch) -> Tensor:
        """(rows, true class, given label) difference of the working rows from what they are shrunk to."""

    @property
    def n_classes(self) -> int:
        return int(self.table.values.shape[-1])

    def logits(self, batch: Batch) -> Tensor:
        """(rows, true class, given label) of the rows that a step works on."""
        rows = self.table.rows(batch)
        return rows if self.common is None else rows + self.common

    def block_log_confusions(self, batch: Batch) -> Tensor:
        return torch.log_softmax(self.logits(batch), dim=-1)

    def block_confusions(self, batch: Batch) -> Tensor:
        return torch.softmax(self.logits(batch), dim=-1)

    def log_columns(self, batch: Batch) -> Tensor:
        return softmax_columns(self.logits(batch), self.table.place(batch), batch.label)

    def log_confusions(self, annotators: Tensor | slice | None = None) -> Tensor:
        values = self.table.values if annotators is None else self.table.values[annotators]
        return torch.log_softmax(values if self.common is None else values + self.common, dim=-1)

    def deviation(self, batch: Batch) -> Tensor:
        return 0.5 * self.shift(batch).square().sum(dim=(1, 2))


class FreeConfusions(LogitConfusions):
    """Free logits per annotator: (annotator, true class, given label), row softmax.

    Examples
    --------
    >>> layer = FreeConfusions(diagonal_confusions(2, 3, 0.8))
    >>> layer.confusions()[0].diagonal().tolist()  # doctest: +ELLIPSIS
    [0.8..., 0.8..., 0.8...]
    """

    form = "free"

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__()
        logits = start.clamp_min(SMALLEST_START).log()
        logits = logits - logits.amin(dim=(1, 2), keepdim=True)  # a diagonal start becomes exactly c times identity
        self.table = RowTable(logits, touched_only=touched_only)
        self.start: Tensor
        self.register_buffer("start", logits.mean(dim=0))
        self.common = None

    def shift(self, batch: Batch) -> Tensor:
        return self.table.rows(batch) - self.start


class PooledConfusions(LogitConfusions):
    """The crowd's common logits plus a residual per annotator; shrinking the residual shrinks towards the crowd."""

    form = "pooled"
    common: nn.Parameter

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__()
        logits = start.clamp_min(SMALLEST_START).log()
        common = logits.mean(dim=0)
        self.common = nn.Parameter(common - common.mean())
        self.table = RowTable(logits - common, touched_only=touched_only)

    def shift(self, batch: Batch) -> Tensor:
        return self.table.rows(batch)


class SkillConfusions(AnnotatorLayer):
    """P(right) = sigmoid(skill of the annotator + ease of the class); wrong labels follow one shared matrix.

    Examples
    --------
    >>> layer = SkillConfusions(diagonal_confusions(2, 3, 0.8))
    >>> layer.confusions().sum(-1).mean().item()  # doctest: +ELLIPSIS
    1.0...
    >>> sum(p.numel() for p in layer.parameters())  # two skills, three class offsets, nine shared logits
    14
    """

    form = "skill"

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__()
        right = start.diagonal(dim1=1, dim2=2).mean(dim=1).clamp(SKILL_MARGIN, 1 - SKILL_MARGIN)
        skill = right.logit()
        if touched_only is None:  # what a step may form of all annotators is their matrices, not their skills
            touched_only = start.numel() > ALL_ROWS_LIMIT
        self.table = RowTable(skill, touched_only=touched_only)
        n_classes = start.shape[-1]
        self.ease = nn.Parameter(torch.zeros(n_classes))
        self.errors = nn.Parameter(start.mean(dim=0).clamp_min(SMALLEST_START).log())
        self.middle: Tensor
        self.register_buffer("middle", skill.mean())

    @property
    def n_classes(self) -> int:
        return int(self.ease.shape[0])

    def _log_errors(self) -> Tensor:
        """(true class, wrong label) log shares of errors; the diagonal is -inf."""
        outside = torch.eye(self.n_classes, dtype=torch.bool, device=self.errors.device)
        return torch.log_softmax(self.errors.masked_fill(outside, -torch.inf), dim=-1)

    def _spread(self, skill: Tensor) -> Tensor:
        """(rows,) skills -> (rows, true class, given label) log confusions."""
        logit = skill.unsqueeze(1) + self.ease
        wrong = functional.logsigmoid(-logit).unsqueeze(2) + self._log_errors()
        index = torch.arange(self.n_classes, device=skill.device)
        wrong[:, index, index] = functional.logsigmoid(logit)
        return wrong

    def block_log_confusions(self, batch: Batch) -> Tensor:
        return self._spread(self.table.rows(batch))

    def log_columns(self, batch: Batch) -> Tensor:
        # Only the columns that occur are formed: annotations x classes, not annotators x classes x classes.
        logit = self.table.rows(batch).index_select(0, self.table.place(batch)).unsqueeze(1) + self.ease
        label = batch.label.unsqueeze(1)
        wrong = functional.logsigmoid(-logit) + self._log_errors().T.index_select(0, batch.label)
        right = functional.logsigmoid(logit.gather(1, label))
        return wrong.scatter(1, label, right)

    def log_confusions(self, annotators: Tensor | slice | None = None) -> Tensor:
        return self._spread(self.table.values if annotators is None else self.table.values[annotators])

    def deviation(self, batch: Batch) -> Tensor:
        return 0.5 * (self.table.rows(batch) - self.middle).square()


FORMS: dict[str, type[FreeConfusions] | type[PooledConfusions] | type[SkillConfusions]] = {
    "free": FreeConfusions,
    "pooled": PooledConfusions,
    "skill": SkillConfusions,
}


def suitable_form(n_annotations: int, n_annotators: int, n_classes: int) -> Form:
    """Choose the form by how many labels an annotator gave on average: a skill each below one label per class.

    Above that, pooled: with many labels the residual outweighs its penalty and the form is as rich as the free one,
    with few it stays near the crowd.

    Examples
    --------
    >>> suitable_form(2547, 59, 8), suitable_form(30_000, 500, 100)
    ('pooled', 'skill')
    """
    return "skill" if n_annotations < n_classes * n_annotators else "pooled"


def make_annotator_layer(form: str, start: Tensor, *, touched_only: bool | None = None) -> AnnotatorLayer:
    """Return the layer of that form, started at the given confusions (annotator, true class, given label)."""
    if form not in FORMS:
        raise InvalidParameterError(f"There is no confusion form {form!r}; there are auto, {', '.join(FORMS)}.")
    return FORMS[form](start, touched_only=touched_only)
