#pragma once

#include <cstddef>
#include <cstdint>

#include "webscale/zeroed_array.hpp"

namespace webscale {

/// Everything about a transition but its frames, side by side: reward, done, timeout, references to frames, action.
///
/// A random draw then costs one or two cache lines for all of them instead of one for each. Fields are reached with a
/// stride, which NumPy views can express. Not thread-safe; addresses never change.
class RowRecords {
public:
    using Reference = std::uint32_t;

    /// Throws std::bad_alloc.
    RowRecords(std::size_t rows, std::size_t references_per_row, std::size_t action_bytes)
        : rows_(rows),
          action_bytes_(action_bytes),
          action_offset_(rounded_up(references_offset + references_per_row * sizeof(Reference))),
          stride_(rounded_up(action_offset_ + action_bytes)),
          bytes_(rows, stride_) {}

    std::size_t rows() const noexcept { return rows_; }
    std::size_t stride() const noexcept { return stride_; }
    std::size_t action_bytes() const noexcept { return action_bytes_; }
    std::size_t nbytes() const noexcept { return bytes_.nbytes(); }

    std::byte* record(std::size_t row) noexcept { return bytes_.data() + row * stride_; }
    const std::byte* record(std::size_t row) const noexcept { return bytes_.data() + row * stride_; }

    // Parts of one record.
    static float& reward(std::byte* record) noexcept { return *reinterpret_cast<float*>(record); }
    static float& done(std::byte* record) noexcept { return *reinterpret_cast<float*>(record + 4); }
    static float& timeout(std::byte* record) noexcept { return *reinterpret_cast<float*>(record + 8); }
    static float reward(const std::byte* record) noexcept { return *reinterpret_cast<const float*>(record); }
    static float done(const std::byte* record) noexcept { return *reinterpret_cast<const float*>(record + 4); }
    static float timeout(const std::byte* record) noexcept { return *reinterpret_cast<const float*>(record + 8); }
    std::byte* action(std::byte* record) const noexcept { return record + action_offset_; }
    const std::byte* action(const std::byte* record) const noexcept { return record + action_offset_; }
    static Reference* references(std::byte* record) noexcept {
        return reinterpret_cast<Reference*>(record + references_offset);
    }
    static const Reference* references(const std::byte* record) noexcept {
        return reinterpret_cast<const Reference*>(record + references_offset);
    }

private:
    static constexpr std::size_t references_offset = 12;
    static constexpr std::size_t rounded_up(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

    std::size_t rows_;
    std::size_t action_bytes_;
    std::size_t action_offset_;
    std::size_t stride_;
    ZeroedArray<std::byte> bytes_;
};

}  // namespace webscale
