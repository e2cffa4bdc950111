#pragma once

#include <memory>
#include <vector>

#include "bound_replay.hpp"
#include "webscale/sharded_replay.hpp"

namespace webscale::bindings {

/// A ShardedReplay over lanes that Python made; keeps them alive.
struct BoundShardedReplay {
    BoundShardedReplay(const std::vector<py::object>& lanes, std::size_t streams, std::uint64_t hash_seed,
                       WindowPolicy windows)
        : owners(lanes),
          replay(addresses(lanes), streams, hash_seed, windows),
          blocks(std::make_shared<BlockPool>()) {}

    const TransitionFormat& format() const { return owners.front().cast<const BoundReplay&>().format; }

    std::vector<py::object> owners;
    ShardedReplay replay;
    std::shared_ptr<BlockPool> blocks;  // shared with the batches that are still out

private:
    static std::vector<Replay*> addresses(const std::vector<py::object>& lanes) {
        std::vector<Replay*> found;
        for (const py::object& lane : lanes) {
            found.push_back(&lane.cast<BoundReplay&>().replay);
        }
        return found;
    }
};

}  // namespace webscale::bindings
