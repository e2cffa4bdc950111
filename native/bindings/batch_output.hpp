#pragma once

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "transition_format.hpp"
#include "webscale/block_pool.hpp"
#include "webscale/transition_ring.hpp"

namespace webscale::bindings {

/// Hands out consecutive arrays of one recycled block, which returns to its pool when the last of them is dropped.
class BatchArrays {
public:
    BatchArrays(const std::shared_ptr<BlockPool>& pool, std::size_t bytes) {
        auto owner = std::make_unique<Owner>(Owner{pool, pool->take(bytes)});
        data_ = owner->block.data();
        capsule_ = py::capsule(owner.get(), [](void* pointer) {
            const std::unique_ptr<Owner> returned(static_cast<Owner*>(pointer));
            returned->pool->give_back(std::move(returned->block));
        });
        owner.release();
    }

    static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

    std::byte* next(std::size_t bytes) {
        std::byte* data = data_ + used_;
        used_ += padded(bytes);
        return data;
    }

    py::array array(const py::dtype& dtype, std::vector<py::ssize_t> shape, std::byte* data) const {
        return py::array(dtype, std::move(shape), data, capsule_);
    }

private:
    struct Owner {
        std::shared_ptr<BlockPool> pool;
        Block block;
    };

    py::capsule capsule_;
    std::byte* data_ = nullptr;
    std::size_t used_ = 0;
};

/// The arrays of one batch, from recycled memory.
class BatchOutput {
public:
    BatchOutput(const TransitionFormat& format, const std::shared_ptr<BlockPool>& blocks, std::size_t count,
                std::size_t n_steps)
        : format_(format),
          count_(static_cast<py::ssize_t>(count)),
          n_steps_(static_cast<py::ssize_t>(n_steps)),
          observations_(blocks, observation_bytes(count)),
          small_(blocks, small_bytes(count, n_steps)) {
        for (const ObservationFormat& part : format_.observations) {
            current_.push_back(observations_.next(count * part.row_bytes));
            next_.push_back(observations_.next(count * part.row_bytes));
        }
        batch.current = current_;
        batch.next = next_;
        batch.actions = small_.next(count * format_.action_bytes());
        batch.terminals = take<float>(count);
        batch.ids = take<std::int64_t>(count);
        rewards_ = take<float>(count * n_steps);
        windows.n_steps = n_steps;
        if (n_steps > 1) {
            windows.rewards = rewards_;
            windows.lengths = take<std::int64_t>(count);
        } else {
            batch.rewards = rewards_;
        }
    }

    /// (observations, next_observations, actions, terminals, rewards, ids, window lengths): observations as lists of one
    /// array for each column, rewards of shape (count, n_steps), lengths None for one step. Then the weights, if any.
    py::tuple arrays(const py::object& weights) const {
        py::list current(current_.size());
        py::list next(next_.size());
        for (std::size_t c = 0; c < current_.size(); ++c) {
            const ObservationFormat& part = format_.observations[c];
            std::vector<py::ssize_t> shape = {count_};
            shape.insert(shape.end(), part.shape.begin(), part.shape.end());
            current[c] = observations_.array(part.dtype, shape, current_[c]);
            next[c] = observations_.array(part.dtype, std::move(shape), next_[c]);
        }
        py::object lengths = py::none();
        if (windows.lengths != nullptr) {
            lengths = small({count_}, windows.lengths);
        }
        const auto action_dim = static_cast<py::ssize_t>(format_.action_dim);
        return py::make_tuple(current, next, small_.array(format_.action_dtype, {count_, action_dim}, batch.actions),
                              small({count_, 1}, batch.terminals), small({count_, n_steps_}, rewards_),
                              small({count_}, batch.ids), lengths, weights);
    }

    Batch batch;
    Windows windows;

private:
    std::size_t observation_bytes(std::size_t count) const {
        std::size_t bytes = 0;
        for (const ObservationFormat& part : format_.observations) {
            bytes += 2 * BatchArrays::padded(count * part.row_bytes);
        }
        return bytes;
    }

    std::size_t small_bytes(std::size_t count, std::size_t n_steps) const {
        return BatchArrays::padded(count * format_.action_bytes()) + BatchArrays::padded(count * sizeof(float)) +
               BatchArrays::padded(count * n_steps * sizeof(float)) +
               2 * BatchArrays::padded(count * sizeof(std::int64_t));
    }

    template <class T>
    T* take(std::size_t elements) {
        return reinterpret_cast<T*>(small_.next(elements * sizeof(T)));
    }

    template <class T>
    py::array small(std::vector<py::ssize_t> shape, T* data) const {
        static const py::dtype dtype = py::dtype::of<T>();
        return small_.array(dtype, std::move(shape), reinterpret_cast<std::byte*>(data));
    }

    const TransitionFormat& format_;
    py::ssize_t count_;
    py::ssize_t n_steps_;
    BatchArrays observations_;
    BatchArrays small_;  // apart from the observations, so that keeping the ids of a batch does not keep its images
    std::vector<std::byte*> current_;
    std::vector<std::byte*> next_;
    float* rewards_ = nullptr;
};

inline std::size_t checked_steps(std::size_t n_steps) {
    if (n_steps == 0) {
        throw std::invalid_argument("n_steps is 0, but a window has at least one step");
    }
    return n_steps;
}

}  // namespace webscale::bindings
