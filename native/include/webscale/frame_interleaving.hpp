#pragma once

#include <cstddef>
#include <span>

namespace webscale {

/// How the frames of a stack take turns in a row: in `parts` groups, each with the next `part_bytes` bytes of every
/// frame, oldest frame first. In elements, frame f is row.reshape(parts, frames, elements)[:, f, :].
///
/// With one part, each frame is contiguous. Images whose channels were stacked along the last axis have a part for each
/// pixel, of one byte if grey and three if coloured.
struct FrameInterleaving {
    std::size_t frames = 1;
    std::size_t parts = 1;
    std::size_t part_bytes = 0;

    /// Writes a row from its frames, each contiguous. O(bytes).
    void interleave(std::span<const std::byte* const> from, std::byte* row) const noexcept;

    /// Writes the frames of a row one after another. O(bytes).
    void separate(const std::byte* row, std::byte* to) const noexcept;
};

}  // namespace webscale
