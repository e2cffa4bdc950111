#include "webscale/spill_store.hpp"

#include <sys/uio.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "doctest/doctest.h"
#include "temporary_directory.hpp"

using webscale::SpillError;
using webscale::SpillFile;
using webscale::SpillStore;

namespace {

std::vector<std::byte> frames_of(std::size_t bytes) {
    std::vector<std::byte> frames(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        frames[i] = static_cast<std::byte>(i * 2654435761u >> 9);
    }
    return frames;
}

std::vector<std::byte> read_back(SpillStore& store, const SpillFile& file, std::size_t offset, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    iovec target{out.data(), bytes};
    store.read(file, *store.open(file), offset, {&target, 1});
    return out;
}

void flip_byte(const std::string& path, std::streamoff position) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(position);
    const char value = static_cast<char>(file.get() ^ 1);
    file.seekp(position);
    file.put(value);
}

std::size_t files_in(const std::string& directory) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
        ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("files read back in parts and are removed with their objects") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(700 * 1000);
    auto file = store.write(frames.data(), frames.size(), 1000);
    CHECK(read_back(store, *file, 0, frames.size()) == frames);
    CHECK(read_back(store, *file, 5000, 1000) == std::vector(frames.begin() + 5000, frames.begin() + 6000));
    CHECK(files_in(directory.path()) == 1);
    file.reset();
    CHECK(files_in(directory.path()) == 0);
}

TEST_CASE("more files than are kept open stay readable") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(256);
    std::vector<std::unique_ptr<SpillFile>> files;
    for (int i = 0; i < 600; ++i) {
        files.push_back(store.write(frames.data(), frames.size(), 64));
    }
    for (const auto& file : files) {
        REQUIRE(read_back(store, *file, 64, 64) == std::vector(frames.begin() + 64, frames.begin() + 128));
    }
}

TEST_CASE("a changed, truncated or missing file is refused by name when it is first read") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(300 * 1000);
    const auto file = store.write(frames.data(), frames.size(), 1000);
    SUBCASE("a byte of a frame") {
        flip_byte(file->path(), SpillFile::header_bytes + 299999);
        CHECK_THROWS_WITH_AS(store.open(*file), doctest::Contains("does not match its checksum"), SpillError);
    }
    SUBCASE("a byte of the header") {
        for (const std::streamoff position : {0, 8, 16, 24, 32}) {
            flip_byte(file->path(), position);
            CHECK_THROWS_WITH_AS(store.open(*file), doctest::Contains("damaged header"), SpillError);
            flip_byte(file->path(), position);
        }
        CHECK_NOTHROW(store.open(*file));
    }
    SUBCASE("truncated") {
        std::filesystem::resize_file(file->path(), 100000);
        CHECK_THROWS_WITH_AS(store.open(*file), doctest::Contains("instead of 300064"), SpillError);
    }
    SUBCASE("truncated after it was read") {
        CHECK(read_back(store, *file, 0, frames.size()) == frames);
        std::filesystem::resize_file(file->path(), 100000);
        CHECK_THROWS_WITH_AS(read_back(store, *file, 200000, 1000), doctest::Contains("truncated"), SpillError);
    }
    SUBCASE("missing") {
        std::filesystem::remove(file->path());
        CHECK_THROWS_WITH_AS(store.open(*file), doctest::Contains(file->path().c_str()), SpillError);
    }
}

TEST_CASE("a file that cannot be written leaves nothing behind") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path() + "/gone");
    const auto frames = frames_of(64);
    CHECK_THROWS_WITH_AS(store.write(frames.data(), 64, 64), doctest::Contains("Nothing is lost"), SpillError);
    SpillStore blocked(directory.path());
    std::filesystem::create_directory(directory.path() + "/1.frames");  // what the file would be renamed to
    CHECK_THROWS_AS(blocked.write(frames.data(), 64, 64), SpillError);
    CHECK(files_in(directory.path()) == 1);
}
