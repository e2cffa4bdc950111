#include "webscale/frame_interleaving.hpp"

#include <cstring>
#include <type_traits>

namespace webscale {

namespace {

/// Interleaves parts of a size known to the compiler, which makes vector instructions of it where it can.
///
/// Each part is copied as `Copied` bytes, one instruction even for three: what a copy writes beyond its part, a later
/// one overwrites. Behind the last part of a frame there is nothing to read or write.
template <std::size_t PartBytes, std::size_t Copied = PartBytes>
struct Parts {
    template <class Count>
    static void interleave(const std::byte* const* from, Count frames, std::size_t parts,
                           std::byte* __restrict row) noexcept {
        const std::size_t last = Copied == PartBytes ? parts : parts - 1;
        for (std::size_t i = 0; i < last; ++i) {
            for (std::size_t f = 0; f < frames; ++f) {
                std::memcpy(row + (i * frames + f) * PartBytes, from[f] + i * PartBytes, Copied);
            }
        }
        for (std::size_t f = 0; last < parts && f < frames; ++f) {
            std::memcpy(row + (last * frames + f) * PartBytes, from[f] + last * PartBytes, PartBytes);
        }
    }

    template <class Count>
    static void separate(const std::byte* __restrict row, Count frames, std::size_t parts,
                         std::byte* __restrict to) noexcept {
        const std::size_t last = Copied == PartBytes ? parts : parts - 1;
        for (std::size_t i = 0; i < last; ++i) {
            for (std::size_t f = 0; f < frames; ++f) {
                std::memcpy(to + (f * parts + i) * PartBytes, row + (i * frames + f) * PartBytes, Copied);
            }
        }
        for (std::size_t f = 0; last < parts && f < frames; ++f) {
            std::memcpy(to + (f * parts + last) * PartBytes, row + (last * frames + f) * PartBytes, PartBytes);
        }
    }
};

/// Calls `function` with the number of frames, as a constant where it is a usual one.
template <class Function>
void with_frames(std::size_t frames, Function function) noexcept {
    switch (frames) {
        case 2: return function(std::integral_constant<std::size_t, 2>());
        case 3: return function(std::integral_constant<std::size_t, 3>());
        case 4: return function(std::integral_constant<std::size_t, 4>());
        case 8: return function(std::integral_constant<std::size_t, 8>());
        default: return function(frames);
    }
}

/// Calls `function` with the kernels for grey and RGB pixels of bytes and of floats; false for other parts.
template <class Function>
bool with_parts(std::size_t part_bytes, Function function) noexcept {
    switch (part_bytes) {
        case 1: function(Parts<1>()); return true;
        case 3: function(Parts<3, 4>()); return true;
        case 4: function(Parts<4>()); return true;
        case 12: function(Parts<12>()); return true;
        default: return false;
    }
}

}  // namespace

void FrameInterleaving::interleave(std::span<const std::byte* const> from, std::byte* row) const noexcept {
    const bool done = with_parts(part_bytes, [&](auto kernels) {
        with_frames(frames, [&](auto count) { kernels.interleave(from.data(), count, parts, row); });
    });
    for (std::size_t i = 0; !done && i < parts; ++i) {
        for (const std::byte* frame : from) {
            std::memcpy(row, frame + i * part_bytes, part_bytes);
            row += part_bytes;
        }
    }
}

void FrameInterleaving::separate(const std::byte* row, std::byte* to) const noexcept {
    const bool done = with_parts(part_bytes, [&](auto kernels) {
        with_frames(frames, [&](auto count) { kernels.separate(row, count, parts, to); });
    });
    for (std::size_t i = 0; !done && i < parts; ++i) {
        for (std::size_t f = 0; f < frames; ++f) {
            std::memcpy(to + (f * parts + i) * part_bytes, row, part_bytes);
            row += part_bytes;
        }
    }
}

}  // namespace webscale
