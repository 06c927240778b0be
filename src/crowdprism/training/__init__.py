"""Training: batches, optimisers, checkpoints and one loop for all methods."""

from __future__ import annotations

from crowdprism.networks import torch_extra as torch_extra

# isort: split
from crowdprism.training.batches import Augmentation, FlatAnnotations, epoch_order
from crowdprism.training.checkpoint import CheckpointFolder
from crowdprism.training.items import DatasetItems, InputScaling, Items, TensorItems
from crowdprism.training.loop import Trainer, TrainingOutcome, predict_log_probs
from crowdprism.training.optimizers import OPTIMIZERS, SCHEDULES, RowAdam, make_optimizer, schedule_at
from crowdprism.training.settings import Callback, EpochRecord, TrainingSettings, choose_device, use_threads

__all__ = ["Augmentation", "Callback", "CheckpointFolder", "DatasetItems", "EpochRecord", "FlatAnnotations"]
__all__ += ["InputScaling", "Items", "OPTIMIZERS", "RowAdam", "SCHEDULES", "TensorItems", "Trainer"]
__all__ += ["TrainingOutcome", "TrainingSettings", "choose_device", "epoch_order", "make_optimizer"]
__all__ += ["predict_log_probs", "schedule_at", "use_threads"]
