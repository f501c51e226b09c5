#include "compute/core/custody_manifest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace quern::compute::core {
namespace {

constexpr crypto::CellCode kCode{2, 5};

crypto::FragmentIds ids_of(std::size_t size) {
    Bytes content(size);
    SeededRng rng(size);
    rng.fill(content);
    auto hasher = crypto::FragmentHasher::make(kCode).value();
    hasher.update(content);
    return hasher.finish();
}

CustodyManifest sample() {
    CustodyManifest manifest{kCode, {ids_of(0), ids_of(1), ids_of(100'000)}};
    std::sort(manifest.contents.begin(), manifest.contents.end(),
              [](const auto& a, const auto& b) { return a.content < b.content; });
    return manifest;
}

std::string_view refusal(BytesView bytes) {
    const auto manifest = decode_custody_manifest(bytes);
    return manifest ? std::string_view("none") : manifest.error().name;
}
std::string_view refusal(const CustodyManifest& manifest) {
    const auto status = check_custody(manifest);
    const auto again = refusal(encode(manifest));
    EXPECT_NE(again, "none");
    return status ? std::string_view("none") : status.error().name;
}

TEST(CustodyManifest, says_what_it_said) {
    const CustodyManifest manifest = sample();
    EXPECT_TRUE(check_custody(manifest));
    const Bytes bytes = encode(manifest);
    EXPECT_EQ(bytes.size(), 14 + 3 * (40 + 5 * 32U));
    EXPECT_EQ(decode_custody_manifest(bytes).value(), manifest);
    EXPECT_EQ(manifest.bytes_of_each(), 0 + 1 + crypto::fragment_bytes(100'000, 2));
    for (const auto& each : manifest.contents) EXPECT_EQ(manifest.find(each.content), &each);
    EXPECT_EQ(manifest.find(Hash32{{1}}), nullptr);
    Hash32 last;
    last.data.fill(0xff);
    EXPECT_EQ(manifest.find(last), nullptr);
}

TEST(CustodyManifest, has_one_encoding) {
    const Bytes bytes = encode(sample());
    EXPECT_EQ(refusal(BytesView()), "custody.not_a_manifest");
    EXPECT_EQ(refusal(BytesView(bytes).first(13)), "custody.not_a_manifest");
    EXPECT_EQ(refusal(BytesView(bytes).first(14)), "custody.wrong_size");
    EXPECT_EQ(refusal(BytesView(bytes).first(bytes.size() - 1)), "custody.wrong_size");
    Bytes other = bytes;
    other.push_back(0);
    EXPECT_EQ(refusal(other), "custody.wrong_size");
    other = bytes;
    other[7] = '2';
    EXPECT_EQ(refusal(other), "custody.not_a_manifest");
    other = bytes;
    ++other[13];
    EXPECT_EQ(refusal(other), "custody.wrong_size");
}

TEST(CustodyManifest, refuses_what_is_out_of_bounds) {
    CustodyManifest other = sample();
    other.code = {0, 5};
    EXPECT_EQ(refusal(other), "custody.bad_code");
    other.code = {6, 5};
    EXPECT_EQ(refusal(other), "custody.bad_code");
    other.code = {2, 65};
    EXPECT_EQ(refusal(other), "custody.bad_code");
    other = sample();
    std::swap(other.contents[0], other.contents[1]);
    EXPECT_EQ(refusal(other), "custody.unsorted");
    other = sample();
    other.contents[1] = other.contents[0];
    EXPECT_EQ(refusal(other), "custody.unsorted");
    other = sample();
    other.contents[2].size = kMaxCustodyContentBytes + 1;
    EXPECT_EQ(refusal(other), "custody.bad_content");
    other = sample();
    other.contents[1].fragments.pop_back();
    EXPECT_EQ(refusal(other), "custody.bad_content");
    other.contents.clear();
    EXPECT_EQ(refusal(other), "custody.too_many");
}

TEST(CustodyManifest, bounds_are_looked_at_before_memory_is_taken) {
    // What says that it has more than there may be, or than there is.
    Bytes head = to_bytes(as_bytes(kCustodyMagic));
    append(head, Bytes{2, 64, 0xff, 0xff, 0xff, 0xff});
    EXPECT_EQ(refusal(head), "custody.too_many");
    head[10] = 0;
    head[11] = 1;
    head[12] = 0;
    head[13] = 0;
    EXPECT_EQ(refusal(head), "custody.too_many") << "65,536 of 64 fragments are more bytes than there may be";
    head[9] = 12;
    EXPECT_EQ(refusal(head), "custody.wrong_size") << "of 12 there may be as many";
    head[13] = 1;
    EXPECT_EQ(refusal(head), "custody.too_many") << "but not one more";
    EXPECT_LE(custody_manifest_bytes(12, kMaxCustodyContents), kMaxCustodyManifestBytes);
}

}  // namespace
}  // namespace quern::compute::core
