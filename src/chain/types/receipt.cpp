#include "chain/types/receipt.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

constexpr std::size_t kMaxTopics = 4;

template <class Fn>
void for_each_bit(BytesView value, Fn&& fn) {
    const Hash32 hash = crypto::keccak256(value);
    for (std::size_t i = 0; i < 6; i += 2) {
        const unsigned bit = (hash.data[i] << 8U | hash.data[i + 1]) & 2047U;
        fn(std::size_t{255} - bit / 8, static_cast<std::uint8_t>(1U << bit % 8));
    }
}

void write_logs(rlp::Writer& out, const std::vector<Log>& logs) {
    out.begin_list();
    for (const auto& log : logs) {
        out.begin_list().fixed(log.address).begin_list();
        for (const auto& topic : log.topics) out.fixed(topic);
        out.end_list().bytes(log.data).end_list();
    }
    out.end_list();
}

Status read_logs(rlp::Reader& in, std::vector<Log>& logs) {
    QUERN_TRY(rlp::Reader items, in.list());
    while (!items.at_end()) {
        QUERN_TRY(rlp::Reader fields, items.list());
        Log log;
        QUERN_TRY(log.address, fields.fixed<20>());
        QUERN_TRY(rlp::Reader topics, fields.list());
        while (!topics.at_end()) {
            if (log.topics.size() == kMaxTopics) return fail("receipt.too_many_topics");
            QUERN_TRY(const Hash32 topic, topics.fixed<32>());
            log.topics.push_back(topic);
        }
        QUERN_TRY(const BytesView data, fields.bytes());
        log.data = to_bytes(data);
        QUERN_CHECK(fields.expect_end());
        logs.push_back(std::move(log));
    }
    return {};
}

Expected<TxType> type_from(std::uint64_t number) {
    switch (number) {
        case 0:
        case 1:
        case 2:
        case 4:
        case static_cast<std::uint64_t>(TxType::native):
            return static_cast<TxType>(number);
        default:
            return fail("receipt.unknown_type", std::to_string(number));
    }
}

}  // namespace

void bloom_add(Bloom& bloom, BytesView value) {
    for_each_bit(value, [&](std::size_t byte, std::uint8_t mask) { bloom.data[byte] |= mask; });
}

Bloom bloom_of(const std::vector<Log>& logs) {
    Bloom bloom;
    for (const auto& log : logs) {
        bloom_add(bloom, log.address);
        for (const auto& topic : log.topics) bloom_add(bloom, topic);
    }
    return bloom;
}

bool bloom_may_contain(const Bloom& bloom, BytesView value) {
    bool all = true;
    for_each_bit(value, [&](std::size_t byte, std::uint8_t mask) { all = all && (bloom.data[byte] & mask) != 0; });
    return all;
}

Bytes encode_consensus(const Receipt& receipt, const Bloom& bloom) {
    rlp::Writer out;
    out.begin_list().boolean(receipt.success).integer(receipt.cumulative_gas_used).fixed(bloom);
    write_logs(out, receipt.logs);
    out.end_list();
    Bytes encoded = std::move(out).finish();
    if (receipt.type != TxType::legacy) encoded.insert(encoded.begin(), static_cast<std::uint8_t>(receipt.type));
    return encoded;
}

// rlp([type, success, cumulative gas, logs, gas used, effective gas price, failure])
Bytes encode_stored(const Receipt& receipt) {
    rlp::Writer out;
    out.begin_list().integer(static_cast<std::uint64_t>(receipt.type)).boolean(receipt.success);
    out.integer(receipt.cumulative_gas_used);
    write_logs(out, receipt.logs);
    out.integer(receipt.gas_used).integer(receipt.effective_gas_price).bytes(as_bytes(receipt.failure)).end_list();
    return std::move(out).finish();
}

Expected<Receipt> decode_stored_receipt(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    Receipt receipt;
    QUERN_TRY(const std::uint64_t type, in.u64());
    QUERN_TRY(receipt.type, type_from(type));
    QUERN_TRY(receipt.success, in.boolean());
    QUERN_TRY(receipt.cumulative_gas_used, in.u64());
    QUERN_CHECK(read_logs(in, receipt.logs));
    QUERN_TRY(receipt.gas_used, in.u64());
    QUERN_TRY(receipt.effective_gas_price, in.u256());
    QUERN_TRY(const BytesView failure, in.bytes());
    receipt.failure = std::string(as_text(failure));
    QUERN_CHECK(in.expect_end());
    return receipt;
}

}  // namespace quern::chain::types
