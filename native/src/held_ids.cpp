#include "webscale/held_ids.hpp"

#include <algorithm>

namespace webscale {

HeldIds::Hold HeldIds::hold(std::int64_t oldest) {
    const std::lock_guard lock(mutex_);
    oldest_.push_back(oldest);
    return Hold(*this, oldest);
}

bool HeldIds::free_below(std::int64_t end) const {
    const std::lock_guard lock(mutex_);
    return none_below(end);
}

void HeldIds::wait_until_free_below(std::int64_t end) const {
    std::unique_lock lock(mutex_);
    let_go_.wait(lock, [&] { return none_below(end); });
}

void HeldIds::let_go(std::int64_t oldest) noexcept {
    const std::lock_guard lock(mutex_);
    oldest_.erase(std::find(oldest_.begin(), oldest_.end(), oldest));
    let_go_.notify_all();
}

bool HeldIds::none_below(std::int64_t end) const noexcept {
    return std::all_of(oldest_.begin(), oldest_.end(), [&](std::int64_t id) { return id >= end; });
}

}  // namespace webscale
