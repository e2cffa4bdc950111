#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "webscale/finite.hpp"
#include "webscale/transition_ring.hpp"

namespace webscale {

/// Where a NaN or an infinity was met: `row` counts the observations given, step by step and env by env inside.
struct NonFinite {
    std::size_t column;
    Side side;
    std::size_t row;
    std::size_t element;
};

/// The first NaN or infinity among `rows` floating-point observations of each column, current and next. O(bytes).
inline std::optional<NonFinite> find_non_finite(const Step& first, std::span<const ObservationLayout> layouts,
                                                std::size_t rows) noexcept {
    for (std::size_t c = 0; c < layouts.size(); ++c) {
        const std::size_t elements = layouts[c].row_bytes / element_bytes(layouts[c].format);
        for (const Side side : {Side::current, Side::next}) {
            const std::byte* values = side == Side::current ? first.current[c] : first.next[c];
            const std::size_t found = find_non_finite(values, elements * rows, layouts[c].format);
            if (found != all_finite) {
                return NonFinite{c, side, found / elements, found % elements};
            }
        }
    }
    return std::nullopt;
}

}  // namespace webscale
