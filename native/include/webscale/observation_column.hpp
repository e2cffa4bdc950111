#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/frame_stream.hpp"
#include "webscale/zeroed_array.hpp"

namespace webscale {

/// Floating-point format of a column's elements; `none` for integers, where every bit pattern is a value.
enum class FloatFormat { none, half, single, double_ };

/// Shape of one observation as bytes. A row of stacked frames is `frames` equal parts, oldest first.
struct ObservationLayout {
    std::size_t row_bytes;
    std::size_t frames = 1;
    FloatFormat format = FloatFormat::none;
};

/// Which observation of a transition.
enum class Side : std::size_t { current = 0, next = 1 };

/// The observations of a transition ring, each distinct frame of an environment's stream kept once.
///
/// The next observation of step t is the observation of step t+1 unless the episode ended between them, and stacked
/// frames overlap. Both are found by comparing bytes when a transition is added, never assumed, so what is read back
/// equals what was stored bit for bit. A row is a slot and an environment, row = slot * n_envs + env.
/// Not thread-safe.
class ObservationColumn {
public:
    using Sequence = FrameStream::Sequence;

    ObservationColumn(std::size_t capacity, std::size_t n_envs, ObservationLayout layout);

    /// Stores both observations of one environment at `slot`. `previous_slot` is where this environment's stream
    /// continues from, or `no_previous`. O(row_bytes). Throws std::bad_alloc.
    void add(std::size_t slot, std::size_t env, std::size_t previous_slot, const std::byte* current,
             const std::byte* next);

    /// Lets go of the frames that only transitions older than the one at `oldest_slot` used. O(frames).
    void release_before(std::size_t oldest_slot, std::size_t env) noexcept;

    /// Copies the observations of `rows[0..count)` to `out`, row after row. O(count * row_bytes).
    void gather(Side side, const std::size_t* rows, std::size_t count, std::byte* out) const noexcept;

    void clear() noexcept;

    const ObservationLayout& layout() const noexcept { return layout_; }
    std::size_t n_envs() const noexcept { return streams_.size(); }
    std::size_t nbytes() const noexcept;

    static constexpr std::size_t no_previous = SIZE_MAX;

    // Direct access for saving and restoring.
    FrameStream& stream(std::size_t env) noexcept { return streams_[env]; }
    const FrameStream& stream(std::size_t env) const noexcept { return streams_[env]; }
    ZeroedArray<Sequence>& references() noexcept { return references_; }

private:
    const Sequence* references_of(std::size_t row, Side side) const noexcept {
        return references_.data() + (row * 2 + static_cast<std::size_t>(side)) * layout_.frames;
    }
    Sequence* references_of(std::size_t row, Side side) noexcept {
        return references_.data() + (row * 2 + static_cast<std::size_t>(side)) * layout_.frames;
    }
    bool holds(const FrameStream& stream, Sequence sequence, const std::byte* frame) const noexcept;
    std::size_t find_shift(const FrameStream& stream, const Sequence* earlier, const std::byte* row) noexcept;
    void intern(FrameStream& stream, const Sequence* earlier, std::size_t shift, const std::byte* row, Sequence* out);

    ObservationLayout layout_;
    std::size_t frame_bytes_;
    std::size_t shift_ = 1;  // frames by which a stack moved at the last step
    // A frame that never changes (a still plane among moving ones) is stored anew when it has become this old, in frames
    // of its stream: shared for ever, it would keep the whole stream behind it from being released.
    Sequence max_age_;
    std::vector<FrameStream> streams_;
    ZeroedArray<Sequence> references_;
    std::vector<Sequence> previous_;  // scratch: references of the row that the new one continues
};

}  // namespace webscale
