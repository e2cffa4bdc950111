#pragma once

#include <array>
#include <cstdint>

namespace webscale {

/// Counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
/// SC 2011). Its whole state is (seed, counter), so it is saved with two integers and a given draw does not depend on
/// who drew the others. Not thread-safe.
class Philox {
public:
    explicit Philox(std::uint64_t seed, std::uint64_t counter = 0) noexcept : seed_(seed), counter_(counter) {}

    std::uint64_t seed() const noexcept { return seed_; }
    std::uint64_t counter() const noexcept { return counter_; }

    /// A double in [0, 1) with 53 random bits; one counter step each.
    double uniform() noexcept {
        const auto words = block(seed_, counter_++);
        const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
        return static_cast<double>(bits >> 11) * 0x1.0p-53;
    }

    /// The 128 random bits that belong to (seed, counter).
    static std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t counter) noexcept {
        std::array<std::uint32_t, 4> x = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                                          0, 0};
        auto key0 = static_cast<std::uint32_t>(seed);
        auto key1 = static_cast<std::uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const std::uint64_t product0 = static_cast<std::uint64_t>(x[0]) * 0xD2511F53u;
            const std::uint64_t product1 = static_cast<std::uint64_t>(x[2]) * 0xCD9E8D57u;
            x = {static_cast<std::uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<std::uint32_t>(product1),
                 static_cast<std::uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<std::uint32_t>(product0)};
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        return x;
    }

private:
    std::uint64_t seed_;
    std::uint64_t counter_;
};

}  // namespace webscale
