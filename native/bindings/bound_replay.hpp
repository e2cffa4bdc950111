#pragma once

#include <memory>
#include <utility>

#include "transition_format.hpp"
#include "webscale/block_pool.hpp"
#include "webscale/replay.hpp"

namespace webscale::bindings {

/// A Replay together with what Python needs to know about its bytes.
struct BoundReplay {
    BoundReplay(std::size_t capacity, std::size_t n_envs, TransitionFormat transition_format)
        : format(std::move(transition_format)),
          replay(capacity, n_envs, format.layouts(), format.action_bytes()),
          blocks(std::make_shared<BlockPool>()) {}

    TransitionFormat format;
    Replay replay;
    std::shared_ptr<BlockPool> blocks;  // shared with the batches that are still out
};

}  // namespace webscale::bindings
