// Directories of ZIP archives, made here byte by byte, and ones that no one should have written.
#include "compute/program/zip_directory.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace quern::compute::program {
namespace {

void put(Bytes& to, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i, number >>= 8) to.push_back(static_cast<std::uint8_t>(number));
}
void put(Bytes& to, const std::string& text) { to.insert(to.end(), text.begin(), text.end()); }

struct Entry {
    std::string name;
    std::string data;
    std::uint32_t method = 0;
    std::uint32_t flags = 0;
    std::uint64_t size = 0;    // 0: the data's
    std::uint64_t local = 0;   // 0: where it is
    std::uint64_t packed = 0;  // 0: the data's size
};
struct Archive {
    std::vector<Entry> entries{};
    std::uint64_t count = 0;  // 0: of the entries
    std::uint64_t shift = 0;  // of the directory's place
    std::string comment{};
    bool with_64 = false;
    std::uint64_t shift_64 = 0;
};

Bytes written(const Archive& archive) {
    Bytes file;
    Bytes directory;
    for (const Entry& each : archive.entries) {
        const std::uint64_t size = each.size != 0 ? each.size : each.data.size();
        const std::uint64_t local = each.local != 0 ? each.local : file.size();
        put(file, 0x04034b50, 4);
        put(file, 0, 22);
        put(file, each.name.size(), 2);
        put(file, 0, 2);
        put(file, each.name);
        put(file, each.data);
        put(directory, 0x02014b50, 4);
        put(directory, 0, 4);
        put(directory, each.flags, 2);
        put(directory, each.method, 2);
        put(directory, 0, 8);
        put(directory, each.packed != 0 ? each.packed : each.data.size(), 4);
        put(directory, size, 4);
        put(directory, each.name.size(), 2);
        put(directory, 0, 12);
        put(directory, local, 4);
        put(directory, each.name);
    }
    const std::uint64_t begin = file.size();
    const std::uint64_t count = archive.count != 0 ? archive.count : archive.entries.size();
    file.insert(file.end(), directory.begin(), directory.end());
    if (archive.with_64) {
        const std::uint64_t end = file.size();
        put(file, 0x06064b50, 4);
        put(file, 44, 8);
        put(file, 0, 12);
        put(file, count, 8);
        put(file, count, 8);
        put(file, directory.size(), 8);
        put(file, begin + archive.shift_64, 8);
        put(file, 0x07064b50, 4);
        put(file, 0, 4);
        put(file, end, 8);
        put(file, 1, 4);
    }
    put(file, 0x06054b50, 4);
    put(file, 0, 4);
    put(file, count, 2);
    put(file, count, 2);
    put(file, directory.size(), 4);
    put(file, begin + archive.shift, 4);
    put(file, archive.comment.size(), 2);
    put(file, archive.comment);
    return file;
}

std::string error_of(BytesView file) {
    const auto read = read_zip_directory(file);
    return read ? "none" : std::string(read.error().name);
}
std::string error_with(const std::function<void(Archive&)>& change) {
    Archive archive{{{"net/data.pkl", "abc"}, {"net/code/a.py", "defgh", 8, 0, 4000}, {"net/data/0", "12345678"}}};
    change(archive);
    return error_of(written(archive));
}

TEST(ZipDirectory, says_what_records_become) {
    const auto read = read_zip_directory(written({{{"net/data.pkl", "abc"}, {"net/code/a.py", "defgh", 8, 0, 4000}}}));
    ASSERT_TRUE(read) << read.error().to_string();
    ASSERT_EQ(read->size(), 2U);
    EXPECT_EQ((*read)[0].name, "net/data.pkl");
    EXPECT_EQ((*read)[0].size, 3U);
    EXPECT_FALSE((*read)[0].packed);
    EXPECT_EQ((*read)[1].size, 4000U);
    EXPECT_TRUE((*read)[1].packed);
    EXPECT_EQ(error_with([](Archive&) {}), "none");
    EXPECT_EQ(error_with([](Archive& a) { a.with_64 = true; }), "none");
}

TEST(ZipDirectory, refuses_what_no_one_should_have_written) {
    EXPECT_EQ(error_of({}), "zip.not_zip");
    EXPECT_EQ(error_of(as_bytes(std::string_view("no archive at all, but long enough"))), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.comment = "x"; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.count = 4; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.count = 2; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.shift = 1; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.shift = 1U << 30; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) {
                  a.with_64 = true;
                  a.shift_64 = 1;
              }),
              "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.count = 0xffff; }), "zip.too_many");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[0].local = 1U << 30; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[0].local = 5; }), "zip.not_zip");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[0].size = 4; }), "zip.not_zip") << "stored, of another size";
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].packed = 4000; }), "zip.not_zip") << "into the directory";
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].size = 0xffffffff; }), "zip.unsupported");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].method = 12; }), "zip.unsupported");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].flags = 1; }), "zip.unsupported");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].name = a.entries[0].name; }), "zip.bad_name");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].name = "net/DATA.pkl"; }), "zip.bad_name");
    for (const char* name : {"../x", "net/../../x", "..", "/etc/passwd", "a\\b", "c:x", "a\nb", ""})
        EXPECT_EQ(error_with([&](Archive& a) { a.entries[2].name = name; }), "zip.bad_name") << name;
    EXPECT_EQ(error_with([](Archive& a) { a.entries[2].name = std::string(kMaxZipName + 1, 'a'); }), "zip.bad_name");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[2].name = "net/..x/...y"; }), "none");
}

TEST(ZipDirectory, counts_what_packed_records_become_before_they_are_unpacked) {
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].size = kMaxZipUnpacked; }), "none");
    EXPECT_EQ(error_with([](Archive& a) { a.entries[1].size = kMaxZipUnpacked + 1; }), "zip.too_large");
    // Each within its bounds.
    EXPECT_EQ(error_with([](Archive& a) {
                  for (int i = 0; i < 9; ++i) a.entries.push_back({"b" + std::to_string(i), "x", 8, 0, 8U << 20});
              }),
              "zip.too_large");
    // One place that many records are said to have.
    EXPECT_EQ(error_with([](Archive& a) {
                  a.entries[0].data = std::string(4000, 'x');
                  for (int i = 0; i < 50; ++i) {
                      Entry same{"s" + std::to_string(i), "", 0, 0, 3000};
                      same.packed = 3000;
                      a.entries.insert(a.entries.begin(), same);
                  }
              }),
              "zip.too_large");
}

TEST(ZipDirectory, is_read_or_refused_wherever_it_is_cut_or_changed) {
    const Bytes file = written({{{"net/data.pkl", "abc"}, {"net/code/a.py", "defgh", 8, 0, 4000}}});
    for (std::size_t size = 0; size < file.size(); ++size)
        EXPECT_NE(error_of(BytesView(file).first(size)), "none") << size;
    std::size_t refused = 0;
    for (std::size_t at = 0; at < file.size(); ++at)
        for (const unsigned byte : {0x00U, 0x01U, 0x7fU, 0x80U, 0xffU}) {
            Bytes damaged = file;
            damaged[at] = static_cast<std::uint8_t>(byte);
            refused += error_of(damaged) == "none" ? 0 : 1;
        }
    EXPECT_GT(refused, 200U);
}

}  // namespace
}  // namespace quern::compute::program
