#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace webscale {

/// Transitions that somebody still has to copy, so that no writer overwrites them meanwhile. Ids are overwritten in
/// their order, so of each reader's only the oldest counts. Thread-safe.
class HeldIds {
public:
    /// Holds an id and everything newer until it is destroyed or moved from; it must not outlive its HeldIds.
    class Hold {
    public:
        Hold() = default;
        Hold(Hold&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), oldest_(other.oldest_) {}
        Hold& operator=(Hold&& other) noexcept {
            std::swap(owner_, other.owner_);
            std::swap(oldest_, other.oldest_);
            return *this;
        }
        ~Hold() {
            if (owner_ != nullptr) {
                owner_->let_go(oldest_);
            }
        }
        explicit operator bool() const noexcept { return owner_ != nullptr; }

    private:
        friend class HeldIds;
        Hold(HeldIds& owner, std::int64_t oldest) : owner_(&owner), oldest_(oldest) {}

        HeldIds* owner_ = nullptr;
        std::int64_t oldest_ = 0;
    };

    Hold hold(std::int64_t oldest);

    /// Whether no id below `end` is held.
    bool free_below(std::int64_t end) const;

    /// Returns when no id below `end` is held.
    void wait_until_free_below(std::int64_t end) const;

private:
    void let_go(std::int64_t oldest) noexcept;
    bool none_below(std::int64_t end) const noexcept;

    mutable std::mutex mutex_;
    mutable std::condition_variable let_go_;
    std::vector<std::int64_t> oldest_;  // of each hold, in no order; there are few
};

}  // namespace webscale
