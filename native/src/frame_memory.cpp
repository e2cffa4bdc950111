#include "webscale/frame_memory.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace webscale {

FrameMemory::FreeBlocks& FrameMemory::free_of(std::size_t bytes) {
    for (FreeBlocks& free : free_) {
        if (free.bytes == bytes) {
            return free;
        }
    }
    free_.push_back({bytes, {}});
    free_.back().blocks.reserve(allowance_ / bytes + 1);  // so that giving back cannot fail
    return free_.back();
}

bool FrameMemory::set_by(std::span<const Need> needs) {
    while (resident() > allowance_) {  // a table has grown
        if (!drop_unneeded({})) {
            return false;
        }
    }
    for (const Need& need : needs) {
        FreeBlocks& free = free_of(need.bytes);
        while (free.blocks.size() < need.count) {
            if (resident() + need.bytes <= allowance_) {
                free.blocks.emplace_back(need.bytes);
                resident_ += need.bytes;
            } else if (!drop_unneeded(needs)) {
                return false;
            }
        }
    }
    return true;
}

bool FrameMemory::drop_unneeded(std::span<const Need> needs) noexcept {
    for (FreeBlocks& free : free_) {
        const auto need = std::find_if(needs.begin(), needs.end(), [&](const Need& n) { return n.bytes == free.bytes; });
        if (free.blocks.size() > (need == needs.end() ? 0 : need->count)) {
            free.blocks.pop_back();
            resident_ -= free.bytes;
            return true;
        }
    }
    return false;
}

Block FrameMemory::take(std::size_t bytes) {
    FreeBlocks& free = free_of(bytes);
    if (free.blocks.empty()) {
        throw std::logic_error("a chunk of frames was taken without being set by first");
    }
    Block block = std::move(free.blocks.back());
    free.blocks.pop_back();
    return block;
}

void FrameMemory::give_back(Block block, std::size_t bytes) noexcept {
    if (block.unshared()) {
        free_of(bytes).blocks.push_back(std::move(block));
    } else if (block) {  // whoever saves the replay still reads it; from now on it is theirs
        resident_ -= bytes;
    }
}

}  // namespace webscale
