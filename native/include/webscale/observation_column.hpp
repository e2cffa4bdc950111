#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/frame_interleaving.hpp"
#include "webscale/frame_reads.hpp"
#include "webscale/frame_stream.hpp"
#include "webscale/row_records.hpp"

namespace webscale {

/// Floating-point format of a column's elements; `none` for integers, where every bit pattern is a value.
enum class FloatFormat { none, half, single, double_ };

/// Shape of one observation as bytes. A row of stacked frames holds `frames` of equal size, oldest first: one after
/// another, or taking turns in `parts` parts each; see FrameInterleaving.
struct ObservationLayout {
    static constexpr std::size_t max_frames = 64;

    std::size_t row_bytes;
    std::size_t frames = 1;
    FloatFormat format = FloatFormat::none;
    std::size_t parts = 1;

    /// Throws std::invalid_argument when the row does not split into its frames and these into their parts.
    void check() const;

    std::size_t frame_bytes() const noexcept { return row_bytes / frames; }
    bool interleaved() const noexcept { return frames > 1 && parts > 1; }

    std::size_t references() const noexcept { return 2 * frames; }
};

/// Which observation of a transition.
enum class Side : std::size_t { current = 0, next = 1 };

/// The observations of a transition ring, each distinct frame of an environment's stream kept once.
///
/// The next observation of step t is the observation of step t+1 unless the episode ended between them, and stacked
/// frames overlap. Both are found by comparing bytes when a transition is added, never assumed, so what is read back
/// equals what was stored bit for bit. Frames are kept contiguous, however they lie in a row. Which frames make up a row stands in the row's record: `frames` references for
/// the current observation, then as many for the next. Not thread-safe.
class ObservationColumn {
public:
    using Sequence = FrameStream::Sequence;

    ObservationColumn(std::size_t capacity, std::size_t n_envs, ObservationLayout layout);

    /// Puts the frames of the empty column into bounded memory; see FrameStream.
    void tier(FrameMemory& memory, std::size_t chunk_frames, std::size_t n_envs);

    /// Stores both observations of environment `env` and writes `references`. `previous` are the references of the row
    /// that this environment's stream continues from, or null. O(row_bytes). Throws std::bad_alloc.
    void add(std::size_t env, const Sequence* previous, const std::byte* current, const std::byte* next,
             Sequence* references);

    /// Lets go of the frames that only transitions older than the one with these `references` used. O(frames).
    void release_before(std::size_t env, const Sequence* references) noexcept;

    /// First frame of an observation; the others need not follow it.
    const std::byte* first_frame(std::size_t env, Side side, const Sequence* references) const noexcept {
        return streams_[env].at(references[side == Side::next ? layout_.frames : 0]);
    }

    /// Copies an observation to `out` and returns the end of it. O(row_bytes).
    std::byte* copy(std::size_t env, Side side, const Sequence* references, std::byte* out) const noexcept;

    /// As copy(), but what lies on disk comes when `reads` is run, and finish() must be called for the row then.
    void want(std::size_t env, Side side, const Sequence* references, std::byte* out, FrameReads& reads) const;

    /// Brings `count` rows, which want() wrote with each frame contiguous, into the order of an observation. O(bytes).
    void finish(std::byte* rows, std::size_t count) const;

    /// Where the bounded memory of a tiered column is; null for others.
    FrameMemory* memory() const noexcept { return streams_.front().memory(); }

    void clear() noexcept;

    const ObservationLayout& layout() const noexcept { return layout_; }
    std::size_t nbytes() const noexcept;

    // Direct access for saving and restoring.
    FrameStream& stream(std::size_t env) noexcept { return streams_[env]; }
    const FrameStream& stream(std::size_t env) const noexcept { return streams_[env]; }

private:
    template <class Visit>
    void for_each_run(const FrameStream& stream, const Sequence* references, Visit visit) const;
    bool holds(const FrameStream& stream, Sequence sequence, const std::byte* frame) const noexcept;
    const std::byte* contiguous_frames(const std::byte* row) noexcept;
    std::size_t find_shift(const FrameStream& stream, const Sequence* earlier, const std::byte* frames) noexcept;
    void intern(FrameStream& stream, const Sequence* earlier, std::size_t shift, const std::byte* frames, Sequence* out);

    ObservationLayout layout_;
    std::size_t frame_bytes_;
    FrameInterleaving interleaving_;
    std::size_t shift_ = 1;  // frames by which a stack moved at the last step
    // A frame that never changes (a still plane among moving ones) is stored anew when it has become this old, in frames
    // of its stream: shared for ever, it would keep the whole stream behind it from being released.
    Sequence max_age_;
    std::vector<FrameStream> streams_;
    std::vector<Sequence> previous_;  // scratch: references of the row that the new one continues
    std::vector<std::byte> separated_;  // scratch: a row whose frames took turns, with each of them contiguous
};

}  // namespace webscale
