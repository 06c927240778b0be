"""Data sets with features, annotations, true classes and splits: a catalogue and `load_dataset`."""

from crowdprism.datasets.catalogue import DatasetEntry, catalogue, find_entry
from crowdprism.datasets.dataset import Dataset, DatasetPart, fetch_dataset, load_dataset
from crowdprism.files import cache_folder, data_folder

__all__ = ["Dataset", "DatasetEntry", "DatasetPart", "catalogue", "fetch_dataset", "find_entry", "load_dataset"]
__all__ += ["cache_folder", "data_folder"]
