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
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.errors import InvalidParameterError
from crowdprism.networks.losses import Batch, confusion_gram, log_columns, log_rows

ALL_ROWS_LIMIT = 2**14  # numbers; a smaller table costs less whole than gathered
ALL_SKILLS_LIMIT = 2**17  # annotators; Adam passes over as many skills in the time of gathering those of a batch
SMALLEST_START = 1e-6  # zeros of a start become this, so that logits are finite
SKILL_MARGIN = 1e-3  # a start that is never or always right becomes a skill this far from certainty
GRAM_CHUNK = 2**20  # numbers of confusions expanded at once when the exact Gram is formed


class RowTable(nn.Module):
    """(n_rows, ...) parameters, one row per annotator; with `touched_only` a step copies its batch's rows."""

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__()
        self.touched_only = start.numel() > ALL_ROWS_LIMIT if touched_only is None else touched_only
        self.values = nn.Parameter(start.clone(), requires_grad=not self.touched_only)
        self._working: tuple[Tensor, Tensor] | None = None  # positions of the step's rows, and their copy

    def rows(self, batch: Batch) -> Tensor:
        """Return the rows that a step works on: all, or those touched, in the order of `place`."""
        if not self.touched_only:
            return self.values
        touched = self.touched(batch)
        if self._working is None or self._working[0] is not touched:
            copy = self.values.detach().index_select(0, touched)
            self._working = touched, copy.requires_grad_(torch.is_grad_enabled())
        return self._working[1]

    def working(self) -> tuple[Tensor, Tensor] | None:
        """Positions of the touched rows of the current step and their copy; None where it has no gradient."""
        return None if self._working is None or self._working[1].grad is None else self._working

    def touched(self, batch: Batch) -> Tensor:
        """Positions of the rows that a batch touches, each once."""
        return batch.touched

    def place(self, batch: Batch) -> Tensor:
        """(annotation,) where each annotation's annotator stands in `rows`."""
        return batch.place if self.touched_only else batch.annotator

    def forget(self) -> None:
        self._working = None


class PairTable(RowTable):
    """(n_annotations, ...) parameters with one row per annotation that was made; always updated where touched."""

    def __init__(self, start: Tensor) -> None:
        super().__init__(start, touched_only=True)

    def touched(self, batch: Batch) -> Tensor:
        return batch.annotation

    def place(self, batch: Batch) -> Tensor:
        """(annotation,) where each annotation stands in `rows`; mixup repeats them."""
        return torch.arange(len(batch.item), device=batch.item.device) % max(1, len(batch.annotation))


def diagonal_logit(diagonal: float, n_classes: int) -> float:
    """Logit c such that softmax of c times a unit vector has the given probability on its diagonal."""
    if not 1 / n_classes < diagonal < 1:
        raise InvalidParameterError(
            f"start_diagonal must be above chance (1/{n_classes}) and below 1 to hold classes apart, not {diagonal}."
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
    """How each annotator confuses the classes; `table` holds what belongs to single annotators."""

    form: str
    table: RowTable
    forms_all: bool  # whether a step may form the matrices of all annotators; else those that its batch touches

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.n_annotators, self.n_classes = start.shape[:2]

    @abstractmethod
    def _log_confusions_of(self, rows: Tensor) -> Tensor:
        """Rows of the table -> (rows, true class, given label) log confusions."""

    @abstractmethod
    def deviation(self, batch: Batch) -> Tensor:
        """(rows, ...) difference of each working row from what it is shrunk to."""

    def block_log_confusions(self, batch: Batch) -> Tensor:
        """Log confusions of all or of touched annotators: (rows, true class, given label), with gradient."""
        rows = self.table.rows(batch)
        some = not self.forms_all and not self.table.touched_only
        return self._log_confusions_of(rows.index_select(0, batch.touched) if some else rows)

    def log_columns(self, batch: Batch) -> Tensor:
        """(annotation, true class) log probability of each given label under each true class."""
        return log_columns(self.block_log_confusions(batch), self.table.place(batch), batch.label)

    def log_confusions(self, annotators: Tensor | slice | None = None) -> Tensor:
        """Log confusions of chosen annotators, or of all: (annotator, true class, given label)."""
        return self._log_confusions_of(self.table.values if annotators is None else self.table.values[annotators])

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.log_confusions().exp()

    @torch.no_grad()
    def gram(self) -> Tensor:
        """Exact Σ_m C_m C_mᵀ over all annotators in float64, formed in chunks."""
        step = max(1, GRAM_CHUNK // self.n_classes**2)
        firsts = range(0, self.n_annotators, step)
        chunks = [confusion_gram(self.log_confusions(slice(first, first + step)).exp()) for first in firsts]
        return torch.stack(chunks).sum(dim=0)


class LogitConfusions(AnnotatorLayer):
    """Forms with a logit for each entry: the confusions are the row softmax of an annotator's row plus `common`."""

    common: nn.Parameter | None  # (true class, given label), trained with the rows where there is one
    centre: Tensor | None  # (true class, given label) that rows are shrunk to; None for zero

    def _log_confusions_of(self, rows: Tensor) -> Tensor:
        return log_rows(rows if self.common is None else rows + self.common)

    def deviation(self, batch: Batch) -> Tensor:
        rows = self.table.rows(batch)
        return rows if self.centre is None else rows - self.centre


class FreeConfusions(LogitConfusions):
    """Free logits per annotator: (annotator, true class, given label), row softmax."""

    form = "free"
    common = None
    centre: Tensor

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__(start)
        logits = start.clamp_min(SMALLEST_START).log()
        logits = logits - logits.amin(dim=(1, 2), keepdim=True)  # a diagonal start becomes exactly c times identity
        self.table = RowTable(logits, touched_only=touched_only)
        self.forms_all = not self.table.touched_only
        self.register_buffer("centre", logits.mean(dim=0))


class PooledConfusions(LogitConfusions):
    """The crowd's common logits plus a residual per annotator; shrinking the residual shrinks towards the crowd."""

    form = "pooled"
    common: nn.Parameter
    centre = None

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__(start)
        logits = start.clamp_min(SMALLEST_START).log()
        common = logits.mean(dim=0)
        self.common = nn.Parameter(common - common.mean())
        self.table = RowTable(logits - common, touched_only=touched_only)
        self.forms_all = not self.table.touched_only


class SkillConfusions(AnnotatorLayer):
    """P(right) = sigmoid(skill of the annotator + ease of the class); wrong labels follow one shared matrix."""

    form = "skill"

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__(start)
        right = start.diagonal(dim1=1, dim2=2).mean(dim=1).clamp(SKILL_MARGIN, 1 - SKILL_MARGIN)
        skill = right.logit()
        many = len(skill) > ALL_SKILLS_LIMIT
        self.table = RowTable(skill, touched_only=many if touched_only is None else touched_only)
        self.forms_all = start.numel() <= ALL_ROWS_LIMIT if touched_only is None else not touched_only
        self.ease = nn.Parameter(torch.zeros(self.n_classes))
        self.errors = nn.Parameter(start.mean(dim=0).clamp_min(SMALLEST_START).log())
        self.middle = nn.Buffer(skill.mean())
        self.right = nn.Buffer(torch.eye(self.n_classes, dtype=torch.bool), persistent=False)

    def _log_errors(self) -> Tensor:
        """(true class, wrong label) log shares of errors; the diagonal is -inf."""
        return torch.log_softmax(self.errors.masked_fill(self.right, -torch.inf), dim=-1)

    def _log_confusions_of(self, rows: Tensor) -> Tensor:
        logit = rows.unsqueeze(1) + self.ease
        right = functional.logsigmoid(logit)
        wrong = (right - logit).unsqueeze(2) + self._log_errors()  # logsigmoid(-x) is logsigmoid(x) - x
        return torch.where(self.right, right.unsqueeze(2), wrong)

    def log_columns(self, batch: Batch) -> Tensor:
        # Only the columns that occur are formed: annotations x classes, not annotators x classes x classes.
        logit = self.table.rows(batch).index_select(0, self.table.place(batch)).unsqueeze(1) + self.ease
        right = functional.logsigmoid(logit)
        wrong = right - logit + self._log_errors().T.index_select(0, batch.label)
        return torch.where(self.right.index_select(0, batch.label), right, wrong)

    @torch.no_grad()
    def gram(self) -> Tensor:
        """Exact Σ_m C_m C_mᵀ from (annotator, true class) numbers: C_m = diag(p_m) + diag(1 - p_m) E."""
        right = torch.sigmoid(self.table.values.unsqueeze(1) + self.ease).double()
        wrong, errors = 1 - right, self._log_errors().exp().double()
        mixed = wrong.T @ right * errors
        return torch.diag(right.square().sum(dim=0)) + mixed + mixed.T + wrong.T @ wrong * (errors @ errors.T)

    def deviation(self, batch: Batch) -> Tensor:
        return self.table.rows(batch) - self.middle


FORMS: dict[str, Any] = {kind.form: kind for kind in (FreeConfusions, PooledConfusions, SkillConfusions)}


def suitable_form(n_annotations: int, n_annotators: int, n_classes: int) -> str:
    """A skill each below one label per class and annotator; else pooled, as rich as free where labels are many."""
    return "skill" if n_annotations < n_classes * n_annotators else "pooled"


def make_annotator_layer(form: str, start: Tensor, *, touched_only: bool | None = None) -> AnnotatorLayer:
    """Return the layer of that form, started at the given confusions (annotator, true class, given label)."""
    if form not in FORMS:
        raise InvalidParameterError(f"There is no confusion form {form!r}; there are auto, {', '.join(FORMS)}.")
    layer: AnnotatorLayer = FORMS[form](start, touched_only=touched_only)
    return layer
