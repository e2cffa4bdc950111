"""Nearest-neighbour search over experience."""

from sb3_webscale.retrieval.encoder import Encoder, EncoderFactory
from sb3_webscale.retrieval.exact_index import ExactIndex
from sb3_webscale.retrieval.graph_index import GraphIndex
from sb3_webscale.retrieval.identity import Identity
from sb3_webscale.retrieval.index_config import IndexConfig
from sb3_webscale.retrieval.random_projection import RandomProjection
from sb3_webscale.retrieval.vector_index import SearchResult

__all__ = [
    "Encoder",
    "EncoderFactory",
    "ExactIndex",
    "GraphIndex",
    "Identity",
    "IndexConfig",
    "RandomProjection",
    "SearchResult",
]
