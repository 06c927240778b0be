"""Annotations larger than memory: stores of shards, and methods that work on them, on one machine or on Spark."""

from crowdprism.shards.partition import Sharded, shard_files
from crowdprism.shards.store import Shards
from crowdprism.shards.store_runs import aggregate_shards
from crowdprism.shards.writing import write_annotations

__all__ = ["Sharded", "Shards", "aggregate_shards", "shard_files", "write_annotations"]
