#include <bit>
#include <cstdint>
#include <stdexcept>

#include "arrays.hpp"
#include "register.hpp"

namespace webscale::bindings {

namespace {

/// NumPy's C interface to its bit generators, numpy/random/bitgen.h.
struct BitGenerator {
    void* state;
    std::uint64_t (*next_uint64)(void*);
    std::uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    std::uint64_t (*next_raw)(void*);
};

/// The integers that RandomState.randint draws below a bound of up to 2^32, of which NEP 19 promises that they never
/// change: those of the stream that remain when it is masked to the bits of the largest and what is too large left out.
class MaskedIntegers {
public:
    MaskedIntegers(const py::capsule& generator, std::uint64_t count) : largest_(static_cast<std::uint32_t>(count - 1)) {
        if (count == 0 || count > std::uint64_t{1} << 32) {
            throw std::invalid_argument("the bound of random integers is " + std::to_string(count) +
                                        ", but must lie in 1 to 2^32");
        }
        generator_ = static_cast<const BitGenerator*>(PyCapsule_GetPointer(generator.ptr(), "BitGenerator"));
        if (generator_ == nullptr) {
            throw py::error_already_set();
        }
        mask_ = largest_ == 0 ? 0 : UINT32_MAX >> std::countl_zero(largest_);
    }

    std::int64_t next() const {
        if (largest_ == 0) {
            return 0;  // without drawing
        }
        std::uint32_t value = 0;
        do {
            value = generator_->next_uint32(generator_->state) & mask_;
        } while (value > largest_);
        return value;
    }

private:
    const BitGenerator* generator_;
    std::uint32_t largest_;
    std::uint32_t mask_;
};

Contiguous<std::int64_t> bounded_integers(const py::capsule& generator, std::int64_t low, std::int64_t high,
                                          std::size_t count) {
    const MaskedIntegers integers(generator, static_cast<std::uint64_t>(high - low));
    Contiguous<std::int64_t> out(static_cast<py::ssize_t>(count));
    for (std::int64_t& number : mutable_view(out)) {
        number = low + integers.next();
    }
    return out;
}

}  // namespace

void register_numpy_stream(py::module_& module) {
    module.def("bounded_integers", &bounded_integers, py::arg("generator"), py::arg("low"), py::arg("high"),
               py::arg("count"), "What RandomState.randint draws from this bit generator, whose lock the caller holds.");
}

}  // namespace webscale::bindings
