#include "p2p/transport/frames.h"

#include <gtest/gtest.h>

namespace quern::p2p::transport {
namespace {

const Hash32 kKey{{9, 8, 7}};

// Delivers all bytes and gives the frames' payloads, or the error.
Expected<std::vector<Bytes>> read_all(FrameReader& reader, BytesView input, std::size_t piece = 1'000'000) {
    std::vector<Bytes> payloads;
    while (!input.empty()) {
        const auto space = reader.free_space();
        const std::size_t count = std::min({space.size(), input.size(), piece});
        std::copy_n(input.begin(), count, space.begin());
        reader.received(count);
        input = input.subspan(count);
        while (true) {
            QUERN_TRY(const auto frame, reader.next());
            if (!frame) break;
            payloads.push_back(to_bytes(frame->payload));
        }
    }
    return payloads;
}

Bytes record(FrameWriter& writer, BytesView payload, std::uint8_t type = 3, bool more = false) {
    Bytes out;
    writer.write({type, more, 77, payload}, out);
    return out;
}

TEST(Frames, round_trip_in_any_pieces) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{19}, std::size_t{100'000}}) {
        FrameWriter writer(kKey, kMaxControlRecord);
        FrameReader reader(kKey, kMaxControlRecord);
        Bytes wire;
        std::vector<Bytes> sent;
        for (const std::size_t size :
             {std::size_t{0}, std::size_t{1}, std::size_t{5000}, max_payload(kMaxControlRecord)}) {
            sent.emplace_back(size, static_cast<std::uint8_t>(size));
            append(wire, record(writer, sent.back()));
        }
        const auto got = read_all(reader, wire, piece);
        ASSERT_TRUE(got) << got.error().to_string();
        EXPECT_EQ(*got, sent);
        EXPECT_TRUE(reader.end_of_input());
    }
}

TEST(Frames, carry_type_flag_and_stream) {
    FrameWriter writer(kKey, kMaxControlRecord);
    FrameReader reader(kKey, kMaxControlRecord);
    Bytes wire;
    writer.write({0x7f, true, 0xfedcba98, as_bytes("abc")}, wire);
    std::copy(wire.begin(), wire.end(), reader.free_space().begin());
    reader.received(wire.size());
    const auto frame = reader.next();
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ((*frame)->type, 0x7f);
    EXPECT_TRUE((*frame)->more);
    EXPECT_EQ((*frame)->stream, 0xfedcba98U);
    EXPECT_EQ(as_text((*frame)->payload), "abc");
}

TEST(Frames, length_is_judged_by_its_three_bytes_alone) {
    FrameReader reader(kKey, kMaxControlRecord);
    EXPECT_EQ(read_all(reader, Bytes{0x00, 0x40, 0x01}).error().name, "frame.too_long");
    FrameReader huge(kKey, kMaxBulkRecord);
    EXPECT_EQ(read_all(huge, Bytes{0xff, 0xff, 0xff}).error().name, "frame.too_long");
    FrameReader small(kKey, kMaxControlRecord);
    EXPECT_EQ(read_all(small, Bytes{0x00, 0x00, 0x14}).error().name, "frame.too_short");
    // A claim within the limit reserves next to nothing until the bytes come.
    FrameReader waiting(kKey, kMaxBulkRecord);
    ASSERT_TRUE(read_all(waiting, Bytes{0x01, 0x00, 0x00}));
    EXPECT_LE(waiting.free_space().size(), 8192U);
}

TEST(Frames, notice_changes_replays_drops_and_swaps) {
    const auto wire = [] {
        FrameWriter writer(kKey, kMaxControlRecord);
        return std::vector<Bytes>{record(writer, as_bytes("one")), record(writer, as_bytes("two")),
                                  record(writer, as_bytes("three"))};
    };
    const auto outcome = [](std::initializer_list<Bytes> records) {
        FrameReader reader(kKey, kMaxControlRecord);
        Bytes all;
        for (const auto& each : records) append(all, each);
        const auto got = read_all(reader, all);
        return got ? std::string("ok") : std::string(got.error().name);
    };
    const auto r = wire();
    EXPECT_EQ(outcome({r[0], r[1], r[2]}), "ok");
    EXPECT_EQ(outcome({r[0], r[0]}), "frame.forged");
    EXPECT_EQ(outcome({r[0], r[2]}), "frame.forged");
    EXPECT_EQ(outcome({r[1], r[0]}), "frame.forged");
    for (std::size_t at = 3; at < r[0].size(); ++at) {
        Bytes changed = r[0];
        changed[at] ^= 1;
        EXPECT_EQ(outcome({changed}), "frame.forged") << at;
    }
    // The length is authenticated: moving a byte of the next record into this one fails.
    Bytes longer = r[0];
    ++longer[2];
    EXPECT_EQ(outcome({longer, r[1]}), "frame.forged");
}

TEST(Frames, truncation_is_told_from_an_end_between_records) {
    FrameWriter writer(kKey, kMaxControlRecord);
    const Bytes wire = record(writer, as_bytes("hello"));
    for (std::size_t size = 1; size < wire.size(); ++size) {
        FrameReader reader(kKey, kMaxControlRecord);
        ASSERT_TRUE(read_all(reader, BytesView(wire).first(size)));
        EXPECT_EQ(reader.end_of_input().error().name, "frame.truncated");
    }
}

TEST(Frames, both_ends_move_to_new_keys_together) {
    FrameWriter writer(kKey, kMaxControlRecord, 4);
    FrameReader reader(kKey, kMaxControlRecord, 4);
    Bytes wire;
    for (int i = 0; i < 50; ++i) append(wire, record(writer, as_bytes("x")));
    const auto got = read_all(reader, wire);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->size(), 50U);
    FrameReader without(kKey, kMaxControlRecord);
    EXPECT_EQ(read_all(without, wire).error().name, "frame.forged");
    EXPECT_EQ(kRekeyRecords, 1'048'576U);
}

}  // namespace
}  // namespace quern::p2p::transport
