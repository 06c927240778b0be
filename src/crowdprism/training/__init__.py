"""Training: batches, optimisers, checkpoints and one loop for all methods."""

from __future__ import annotations

from crowdprism.networks import torch_extra as torch_extra

# isort: split
from crowdprism.training.batches import Augmentation, FlatAnnotations, InputScaling, Items, TensorItems
from crowdprism.training.checkpoint import CheckpointFolder
from crowdprism.training.loop import Trainer, TrainingOutcome, predict_log_probs
from crowdprism.training.settings import Callback, EpochRecord, TrainingSettings, use_threads

__all__ = ["Augmentation", "Callback", "CheckpointFolder", "EpochRecord", "FlatAnnotations", "InputScaling", "Items"]
__all__ += ["TensorItems", "Trainer", "TrainingOutcome", "TrainingSettings", "predict_log_probs", "use_threads"]
