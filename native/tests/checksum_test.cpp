#include "webscale/checksum.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "doctest/doctest.h"

using webscale::Checksum;

namespace {

std::uint64_t checksum_of(const std::string& text, std::size_t piece) {
    Checksum checksum;
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    for (std::size_t i = 0; i < text.size(); i += piece) {
        checksum.update(data + i, std::min(piece, text.size() - i));
    }
    return checksum.digest();
}

}  // namespace

TEST_CASE("checksums are those of the published test vectors of XXH64") {
    CHECK(checksum_of("", 32) == 0xEF46DB3751D8E999u);
    CHECK(checksum_of("a", 32) == 0xD24EC4F1A98C6E5Bu);
    CHECK(checksum_of("abc", 32) == 0x44BC2CF5AD770999u);
    CHECK(checksum_of("The quick brown fox jumps over the lazy dog", 64) == 0x0B242D361FDA71BCu);
}

TEST_CASE("pieces make no difference, every byte does") {
    std::string text(1000, 'x');
    const std::uint64_t whole = checksum_of(text, 1024);
    CHECK(checksum_of(text, 32) == whole);
    CHECK(checksum_of(text, 320) == whole);
    for (std::size_t i = 0; i < text.size(); ++i) {
        text[i] = 'y';
        CHECK(checksum_of(text, 1024) != whole);
        text[i] = 'x';
    }
}
