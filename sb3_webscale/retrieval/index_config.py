"""Settings of the index inside a replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gymnasium import spaces

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.encoder import Encoder, EncoderFactory, flat_width
from sb3_webscale.retrieval.encoder_names import AUTO, encoder_factory
from sb3_webscale.retrieval.graph_index import GraphIndex
from sb3_webscale.retrieval.identity import Identity
from sb3_webscale.retrieval.random_projection import RandomProjection

__all__ = ["IndexConfig", "parse_index_config"]

_WIDEST_IDENTITY = 256


@dataclass(frozen=True)
class IndexConfig:
    """How a replay buffer indexes its observations.

    :param encoder: what makes vectors of observations: ``"identity"``, ``"random_projection"``, a plugin's name, a
        mapping with ``name`` and the encoder's own settings, or an object with ``build`` such as
        :class:`~sb3_webscale.retrieval.RandomProjection`. ``"auto"`` is the identity for up to 256 elements, and a
        random projection for more
    :param metric: ``"l2"`` or ``"cosine"``
    :param max_neighbors: links that a new node chooses, 1 to 48
    :param ef_construction: nodes that are considered for them
    :param ef_search: candidates kept by a search; more find more and take longer
    :param merge_every: transitions that are added to the index at once; a search adds those that are waiting
    :param keys: keys of a Dict space that are encoded; None is all
    :raises InvalidInputError: when one of these is out of range
    """

    encoder: str | Mapping[str, Any] | EncoderFactory = AUTO
    metric: str = "l2"
    max_neighbors: int = 32
    ef_construction: int = 200
    ef_search: int = 64
    merge_every: int = 1000
    keys: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("max_neighbors", "ef_construction", "ef_search", "merge_every"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                msg = f"{name} of the index is {value!r}, but must be an integer"
                raise InvalidInputError(msg)
        if self.merge_every < 1:
            msg = f"merge_every of the index is {self.merge_every}, but must be at least 1: 1000 is a good choice"
            raise InvalidInputError(msg)
        keys: Any = self.keys
        if isinstance(keys, str):
            msg = f"keys of the index is {keys!r}, but must be a list: write [{keys!r}]"
            raise InvalidInputError(msg)
        if keys is not None:
            object.__setattr__(self, "keys", tuple(keys))
        self.new_graph(1)
        encoder_factory(self.encoder)

    def new_graph(self, dim: int) -> GraphIndex:
        """
        :param dim: length of a vector
        :return: an empty index with these settings
        """
        return GraphIndex(dim, self.metric, self.max_neighbors, self.ef_construction, self.ef_search)

    def encoded_space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        """
        :param space: the buffer's observation space
        :return: the part of it that is encoded
        :raises InvalidInputError: when ``keys`` do not suit the space
        """
        if self.keys is None:
            return space
        if not isinstance(space, spaces.Dict):
            msg = f"keys of the index is {list(self.keys)}, but observation_space is no Dict: leave keys out"
            raise InvalidInputError(msg)
        for key in self.keys:
            if key not in space.spaces:
                msg = f"keys of the index holds {key!r}, which is no key of observation_space; {name_hint(key, space)}"
                raise InvalidInputError(msg)
        if not self.keys or len(set(self.keys)) != len(self.keys):
            msg = f"keys of the index is {list(self.keys)}, but must name each key once, and at least one"
            raise InvalidInputError(msg)
        # In the order of the space, as the buffer stores them.
        return spaces.Dict({key: part for key, part in space.spaces.items() if key in self.keys})

    def build_encoder(self, space: spaces.Space[Any], seed: int) -> Encoder:
        """
        :param space: what :meth:`encoded_space` returned
        :param seed: 64-bit seed
        :return: the encoder
        :raises InvalidInputError: when the encoder and the space do not suit each other
        """
        factory = encoder_factory(self.encoder)
        if factory is None:
            factory = Identity() if flat_width(space) <= _WIDEST_IDENTITY else RandomProjection()
        return factory.build(space, seed)


def parse_index_config(given: Any) -> IndexConfig | None:
    """
    :param given: settings, a mapping of them as a YAML file has it, True for the defaults, or None or False for none
    :return: the settings, or None
    :raises InvalidInputError: when it is something else, or holds an unknown name
    """
    if given is None or given is False:
        return None
    if isinstance(given, IndexConfig):
        return given
    if given is True:
        return IndexConfig()
    if not isinstance(given, Mapping):
        msg = f"index is {given!r}, but must be an IndexConfig, a mapping of its settings, or None"
        raise InvalidInputError(msg)
    known = [field.name for field in fields(IndexConfig)]
    for name in given:
        if name not in known:
            msg = f"index holds {name!r}, which is no setting of it; {name_hint(str(name), known)}"
            raise InvalidInputError(msg)
    return IndexConfig(**given)
