"""Where examples and labels come from."""

from vinets.core.device import Inputs
from vinets.data.cifar import cifar
from vinets.data.classes import relabel
from vinets.data.conversion import LoaderSource, TensorSource, as_source, split_source
from vinets.data.digits import digits
from vinets.data.folders import image_folder
from vinets.data.formats import DATA_FORMATS, DataFormat, load_data
from vinets.data.idx import idx_folder
from vinets.data.images import Augmentation, ImageSource, Preprocessing
from vinets.data.npy import npy_pair
from vinets.data.source import DataSplit, Source, choose_per_class
from vinets.data.texts import text_folder
from vinets.data.transforms import preprocessing_of

__all__ = [
    "DATA_FORMATS",
    "Augmentation",
    "DataFormat",
    "DataSplit",
    "ImageSource",
    "Inputs",
    "LoaderSource",
    "Preprocessing",
    "Source",
    "TensorSource",
    "as_source",
    "choose_per_class",
    "cifar",
    "digits",
    "idx_folder",
    "image_folder",
    "load_data",
    "npy_pair",
    "preprocessing_of",
    "relabel",
    "split_source",
    "text_folder",
]
