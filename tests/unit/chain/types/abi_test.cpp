#include "chain/types/abi.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "chain/types/native_objects.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

// sam(bytes,bool,uint256[]) of the specification's examples.
struct Sam {
    Bytes name;
    bool flag = false;
    std::vector<Uint256> numbers;
    QUERN_FIELDS(v("name", name), v("flag", flag), v("numbers", numbers))
};

const char* const kSam =
    "0000000000000000000000000000000000000000000000000000000000000060"
    "0000000000000000000000000000000000000000000000000000000000000001"
    "00000000000000000000000000000000000000000000000000000000000000a0"
    "0000000000000000000000000000000000000000000000000000000000000004"
    "6461766500000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000003"
    "0000000000000000000000000000000000000000000000000000000000000001"
    "0000000000000000000000000000000000000000000000000000000000000002"
    "0000000000000000000000000000000000000000000000000000000000000003";

TEST(Abi, matches_the_specifications_example) {
    const Sam sam{to_bytes(as_bytes("dave")), true, {Uint256(1), Uint256(2), Uint256(3)}};
    EXPECT_EQ(to_hex(abi::encode_arguments(sam)), kSam);
    const auto decoded = abi::decode_arguments<Sam>(from_hex(kSam).value());
    ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
    EXPECT_EQ(decoded->name, sam.name);
    EXPECT_EQ(decoded->numbers, sam.numbers);
}

TEST(Abi, refuses_anything_but_the_canonical_form) {
    const Bytes good = from_hex(kSam).value();
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(abi::decode_arguments<Sam>(BytesView(good).first(size)).has_value());
    Bytes longer = good;
    longer.resize(good.size() + 32);
    EXPECT_EQ(abi::decode_arguments<Sam>(longer).error().name, "abi.trailing_bytes");
    const auto with = [&](std::size_t offset, std::uint8_t value) {
        Bytes changed = good;
        changed[offset] = value;
        const auto decoded = abi::decode_arguments<Sam>(changed);
        return decoded ? std::string("accepted") : std::string(decoded.error().name);
    };
    EXPECT_EQ(with(31, 0x80), "abi.bad_offset");
    EXPECT_EQ(with(0, 0xff), "abi.bad_offset");
    EXPECT_EQ(with(63, 2), "abi.value_out_of_range");
    EXPECT_EQ(with(4 * 32 + 31, 1), "abi.bad_padding");
    EXPECT_NE(with(3 * 32, 0xff), "accepted");  // a length that claims more than memory holds
    EXPECT_NE(with(5 * 32, 0xff), "accepted");
    EXPECT_NE(with(5 * 32 + 31, 4), "accepted");
}

TEST(Abi, whatever_decodes_encodes_to_the_same_bytes) {
    SeededRng rng(11);
    const Bytes good = from_hex(kSam).value();
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        Bytes changed = good;
        for (std::uint64_t n = 0; n <= rng.below(2); ++n)
            changed[rng.below(changed.size())] = static_cast<std::uint8_t>(rng.u64());
        const auto decoded = abi::decode_arguments<Sam>(changed);
        if (!decoded) continue;
        ++accepted;
        ASSERT_EQ(abi::encode_arguments(*decoded), changed);
    }
    EXPECT_GT(accepted, 100);
}

TEST(Abi, every_native_kind_is_callable_in_both_encodings) {
    std::set<Bytes, BytesLess> selectors;
    for (const auto& info : native_kinds()) {
        EXPECT_EQ(find_kind(info.name), &info);
        EXPECT_EQ(find_kind(static_cast<std::uint8_t>(info.kind)), &info);
        EXPECT_EQ(group_at(group_address(info.group)), info.group);
        const std::string& signature = abi::function_signature(info.kind);
        EXPECT_TRUE(signature.starts_with(std::string(info.function) + "(")) << signature;
        const Hash32 hash = crypto::keccak256(as_bytes(signature));
        EXPECT_EQ(to_hex(abi::selector(info.kind)), to_hex(hash.view().first(4)));
        Bytes unique = {static_cast<std::uint8_t>(info.group)};
        append(unique, abi::selector(info.kind));
        EXPECT_TRUE(selectors.insert(unique).second) << signature;
        visit_kind(info.kind, [&](auto, auto tag) {
            const Bytes payload = encode_record(typename decltype(tag)::Payload{});
            const auto call = abi::encode_call(info.kind, payload);
            ASSERT_TRUE(call.has_value()) << signature;
            const auto decoded = abi::decode_call(info.group, *call);
            ASSERT_TRUE(decoded.has_value()) << signature << decoded.error().to_string();
            EXPECT_EQ(decoded->kind, info.kind);
            EXPECT_EQ(decoded->payload, payload);
            EXPECT_FALSE(abi::decode_call(info.group, BytesView(*call).first(call->size() - 1)).has_value());
        });
    }
    EXPECT_EQ(abi::decode_call(KindGroup::tasks, Bytes{1, 2, 3, 4}).error().name, "abi.unknown_function");
    EXPECT_FALSE(abi::decode_call(KindGroup::tasks, Bytes{1, 2}).has_value());
    EXPECT_EQ(find_kind(std::uint8_t{0xff}), nullptr);
    EXPECT_EQ(group_at(Address()), std::nullopt);
}

// What will grow has a version, and a function that does not change with its fields; what wallets call by hand does
// not.
TEST(Abi, payloads_of_the_market_are_records_with_a_version) {
    for (const auto& info : native_kinds()) {
        const auto number = static_cast<unsigned>(info.kind);
        const bool grows = number == 0x23 || (number >= 0x30 && number < 0x60);
        const std::string whole = std::string(info.function) + "(bytes)";
        visit_kind(info.kind, [&](auto, auto tag) {
            using Payload = typename decltype(tag)::Payload;
            EXPECT_EQ(record::VersionedRecord<Payload>, grows) << info.name;
            if constexpr (record::VersionedRecord<Payload>) {
                EXPECT_EQ(abi::function_signature(info.kind), whole);
                const Bytes payload = encode_record(Payload{});
                Bytes other = payload;
                other[rlp::decode_list(payload)->rest().data() - payload.data()] = 2;
                EXPECT_EQ(decode_record<Payload>(other).error().name, "record.unknown_version") << info.name;
            }
        });
    }
}

TEST(Abi, a_call_of_the_market_carries_the_payload_of_the_native_transaction) {
    const Bytes payload = encode_record(TaskBidPayload{5, 0, 7, 40, 41});
    EXPECT_EQ(to_hex(payload), "c6010580072829");
    const auto call = abi::encode_call(NativeKind::task_bid, payload);
    ASSERT_TRUE(call);
    EXPECT_EQ(to_hex(*call), to_hex(abi::selector(NativeKind::task_bid)) + std::string(62, '0') + "20" +
                                 std::string(62, '0') + "07" + "c6010580072829" + std::string(50, '0'));
    // Of a payload that nobody could run no call is made; one that was made is for who runs it to refuse.
    EXPECT_EQ(abi::encode_call(NativeKind::task_bid, *from_hex("c6020580072829")).error().name,
              "record.unknown_version");
    EXPECT_EQ(abi::encode_call(NativeKind::task_bid, *from_hex("c50105800728")).error().name, "rlp.truncated");
    for (const char* longer : {"c701058007282901", "c601058007282901"})
        EXPECT_EQ(abi::encode_call(NativeKind::task_bid, *from_hex(longer)).error().name, "rlp.trailing_bytes");
    Bytes unknown = *call;
    unknown[4 + 64 + 1] = 2;
    const auto decoded = abi::decode_call(KindGroup::tasks, unknown);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(to_hex(decoded->payload), "c6020580072829");
    EXPECT_EQ(abi::function_arguments(NativeKind::task_bid),
              (std::vector<std::pair<std::string, std::string>>{{"bytes", "payload"}}));
}

TEST(Abi, groups_of_fields_have_versions_of_their_own) {
    TaskSubmitPayload spec;
    spec.work.interval = 0x55;
    Bytes payload = encode_record(spec);
    EXPECT_TRUE(decode_record<TaskSubmitPayload>(payload));
    const Bytes work = encode_record(spec.work);
    const auto at = std::search(payload.begin(), payload.end(), work.begin(), work.end());
    ASSERT_NE(at, payload.end());
    at[1] = 2;
    const auto refused = decode_record<TaskSubmitPayload>(payload);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().to_string(), "record.unknown_version: field work: 2");
}

TEST(Abi, numbers_of_kinds_and_objects_to_come_are_reserved) {
    for (const ReservedKind& reserved : reserved_kinds()) {
        EXPECT_EQ(find_kind(reserved.number), nullptr) << reserved.name;
        EXPECT_EQ(find_kind(reserved.name), nullptr) << reserved.name;
        EXPECT_EQ(find_reserved_kind(reserved.number), &reserved);
    }
    EXPECT_EQ(find_reserved_kind(0x39)->name, "round_post");
    EXPECT_EQ(find_reserved_kind(0x34), nullptr);

    const auto named = [](unsigned number) {
        const auto prefix = prefix_of_key(Bytes{static_cast<std::uint8_t>(number), 1});
        return prefix ? std::string("known") : std::string(prefix.error().name);
    };
    for (const unsigned number : {0x35U, 0x37U, 0x3fU, 0x51U, 0x53U, 0x5fU})
        EXPECT_EQ(named(number), "object.reserved_prefix") << number;
    for (const unsigned number : {0x00U, 0x16U, 0x40U, 0x60U, 0xffU})
        EXPECT_EQ(named(number), "object.unknown_prefix") << number;
    for (const unsigned number : {0x01U, 0x15U, 0x20U, 0x30U, 0x31U, 0x32U, 0x34U, 0x50U, 0x52U})
        EXPECT_EQ(named(number), "known") << number;
    EXPECT_EQ(prefix_of_key({}).error().name, "object.unknown_prefix");
}

TEST(Abi, revert_texts_round_trip) {
    const Bytes data = abi::encode_error("task.not_open");
    EXPECT_EQ(to_hex(BytesView(data).first(4)), "08c379a0");
    EXPECT_EQ(abi::decode_error(data), "task.not_open");
    EXPECT_EQ(abi::decode_error(BytesView(data).first(40)), std::nullopt);
    EXPECT_EQ(abi::decode_error({}), std::nullopt);
}

}  // namespace
}  // namespace quern::chain::types
