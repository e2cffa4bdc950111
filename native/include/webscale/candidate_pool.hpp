#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace webscale {

/// The nearest nodes that a graph search has met so far, sorted by distance, each with a mark of whether its links were
/// followed. One sorted array instead of two heaps: it is short, and its best unfollowed entry is found without a search.
/// Not thread-safe.
class CandidatePool {
public:
    struct Candidate {
        std::uint32_t distance;
        std::uint32_t node;
        bool followed;
    };

    /// Empties the pool and lets it keep `capacity` candidates, at least 1.
    void restart(std::size_t capacity) {
        capacity_ = capacity;
        if (candidates_.size() < capacity) {
            candidates_.resize(capacity);
        }
        size_ = 0;
        next_ = 0;
    }

    std::size_t size() const noexcept { return size_; }
    const Candidate& operator[](std::size_t i) const noexcept { return candidates_[i]; }

    /// Keeps a node unless the pool is full of nearer ones. Of equal distances the one that came first stays in front.
    void offer(std::uint32_t distance, std::uint32_t node) noexcept {
        if (size_ == capacity_) {
            if (distance >= candidates_[size_ - 1].distance) {
                return;
            }
            --size_;
        }
        std::size_t low = 0;
        std::size_t high = size_;
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            if (candidates_[middle].distance <= distance) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        std::memmove(&candidates_[low] + 1, &candidates_[low], (size_ - low) * sizeof(Candidate));
        candidates_[low] = {distance, node, false};
        ++size_;
        if (low < next_) {
            next_ = low;
        }
    }

    /// Whether some candidate's links are still to be followed.
    bool unfinished() const noexcept { return next_ < size_; }

    /// The nearest such candidate, which is marked.
    std::uint32_t follow() noexcept {
        Candidate& candidate = candidates_[next_];
        candidate.followed = true;
        do {
            ++next_;
        } while (next_ < size_ && candidates_[next_].followed);
        return candidate.node;
    }

    /// The one that follow() will return unless a nearer one comes. Requires unfinished().
    std::uint32_t next() const noexcept { return candidates_[next_].node; }

private:
    std::vector<Candidate> candidates_;
    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
    std::size_t next_ = 0;  // none before it is left to follow
};

}  // namespace webscale
