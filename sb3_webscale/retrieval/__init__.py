"""Nearest-neighbour search over experience."""

from sb3_webscale.retrieval.exact_index import ExactIndex
from sb3_webscale.retrieval.graph_index import GraphIndex
from sb3_webscale.retrieval.vector_index import SearchResult

__all__ = ["ExactIndex", "GraphIndex", "SearchResult"]
