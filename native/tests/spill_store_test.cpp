#include "webscale/spill_store.hpp"

#include <sys/uio.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "doctest/doctest.h"
#include "temporary_directory.hpp"

using webscale::SpillError;
using webscale::SpillSegment;
using webscale::SpillStore;

namespace {

std::vector<std::byte> frames_of(std::size_t bytes, unsigned seed = 0) {
    std::vector<std::byte> frames(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        frames[i] = static_cast<std::byte>((i + seed) * 2654435761u >> 9);
    }
    return frames;
}

std::vector<std::byte> read_back(const SpillSegment& segment, std::size_t begin, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    iovec target{out.data(), bytes};
    segment.read(begin, {&target, 1});
    return out;
}

void flip_byte(const std::string& path, std::streamoff position) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(position);
    const char value = static_cast<char>(file.get() ^ 1);
    file.seekp(position);
    file.put(value);
}

}  // namespace

TEST_CASE("segments read back in parts") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(700 * 1000);
    const auto other_frames = frames_of(700 * 1000, 5);
    const auto segment = store.write(frames.data(), frames.size());
    const auto other = store.write(other_frames.data(), other_frames.size());
    CHECK(segment->path() == other->path());
    CHECK(read_back(*segment, 0, frames.size()) == frames);
    CHECK(read_back(*segment, 5000, 1000) == std::vector(frames.begin() + 5000, frames.begin() + 6000));
    CHECK(read_back(*other, 0, frames.size()) == other_frames);
    std::vector<std::byte> first(300), second(200);
    const std::vector<iovec> pieces = {{first.data(), 300}, {second.data(), 200}};
    if (segment->read_at_once(1000, pieces)) {  // not every file system can tell
        CHECK(first == std::vector(frames.begin() + 1000, frames.begin() + 1300));
        CHECK(second == std::vector(frames.begin() + 1300, frames.begin() + 1500));
    }
    segment->expect(0, frames.size());
}

TEST_CASE("a segment's place is used anew and the file ends behind the last one") {
    const TemporaryDirectory directory;
    std::string path;
    {
        SpillStore store(directory.path());
        const auto frames = frames_of(5000);  // two blocks, so 8192 bytes
        std::vector<std::shared_ptr<const SpillSegment>> segments;
        for (int i = 0; i < 5; ++i) {
            segments.push_back(store.write(frames.data(), frames.size()));
        }
        path = segments[0]->path();
        CHECK(segments[4]->offset() == 4 * 8192);
        segments[1].reset();
        CHECK(store.write(frames.data(), frames.size())->offset() == 8192);
        segments[4].reset();
        segments[3].reset();
        CHECK(std::filesystem::file_size(path) == 3 * 8192);
        segments.clear();
        CHECK(std::filesystem::file_size(path) == 0);
        CHECK(store.write(frames.data(), 100)->path() != path);
    }
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("blocks are checked one by one") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(5 * 4096 + 100);
    const auto segment = store.write(frames.data(), frames.size());
    CHECK_FALSE(segment->checked(0, 1));
    segment->check(4096, {frames.data() + 4096, 4096});
    CHECK(segment->checked(4096, 8192));
    CHECK_FALSE(segment->checked(4096, 8193));
    segment->check(5 * 4096, {frames.data() + 5 * 4096, 100});
    CHECK(segment->checked(5 * 4096 + 50, frames.size()));
    CHECK_THROWS_AS(segment->check(0, {frames.data() + 4096, 4096}), SpillError);
    CHECK_FALSE(segment->checked(0, 1));
    segment->check_all();
    CHECK(segment->checked(0, frames.size()));
}

TEST_CASE("a changed or truncated file is refused by name, a removed one stays readable") {
    const TemporaryDirectory directory;
    SpillStore store(directory.path());
    const auto frames = frames_of(300 * 1000);
    const auto segment = store.write(frames.data(), frames.size());
    SUBCASE("a byte of a frame") {
        flip_byte(segment->path(), 299999);
        CHECK_THROWS_WITH_AS(segment->check_all(), doctest::Contains("does not match its checksum"), SpillError);
        CHECK_THROWS_WITH_AS(segment->check_all(), doctest::Contains(segment->path().c_str()), SpillError);
    }
    SUBCASE("truncated") {
        std::filesystem::resize_file(segment->path(), 100000);
        CHECK_THROWS_WITH_AS(read_back(*segment, 200000, 1000), doctest::Contains("truncated"), SpillError);
    }
    SUBCASE("removed") {
        std::filesystem::remove(segment->path());
        CHECK(read_back(*segment, 0, frames.size()) == frames);
    }
}

TEST_CASE("a segment that cannot be written takes no place") {
    const TemporaryDirectory directory;
    const auto frames = frames_of(64);
    SpillStore store(directory.path() + "/later");
    CHECK_THROWS_WITH_AS(store.write(frames.data(), 64), doctest::Contains("Nothing is lost"), SpillError);
    std::filesystem::create_directory(directory.path() + "/later");
    CHECK(store.write(frames.data(), 64)->offset() == 0);
}
