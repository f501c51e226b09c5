#include "p2p/messages/messages.h"

#include "base/rlp.h"

namespace quern::p2p::messages {

// Or the largest blocks could be neither proposed nor fetched.
static_assert(kMaxConsensusMessage >= chain::types::kMaxBlockBytes + 65 * 5'000);  // with 65 certificates
static_assert(kMaxBlockMessage >= chain::types::kMaxBlockBytes + 5'000 && kMaxRangeMessage > kMaxBlockMessage);

namespace {

using rlp::Reader;
using rlp::Writer;

// Reads a list's items with `item` into `out`, at most `limit` of them. Nothing is reserved by what a length claims.
template <class T, class Item>
quern::Status read_list(Reader& reader, std::vector<T>& out, std::size_t limit, Item item) {
    QUERN_TRY(Reader list, reader.list());
    while (!list.at_end()) {
        if (out.size() >= limit) return fail("message.too_many", "more than " + std::to_string(limit));
        QUERN_TRY(T value, item(list));
        out.push_back(std::move(value));
    }
    return {};
}

Expected<Bytes> read_string(Reader& reader) {
    QUERN_TRY(const BytesView view, reader.bytes());
    return to_bytes(view);
}

Expected<std::string> read_text(Reader& reader, std::size_t limit) {
    QUERN_TRY(const BytesView view, reader.bytes());
    if (view.size() > limit) return fail("message.bad_text", "longer than " + std::to_string(limit));
    for (const auto byte : view)
        if (byte < 0x20 || byte > 0x7e) return fail("message.bad_text", "not printable");
    return std::string(as_text(view));
}

// The whole body is one list, which `fields` reads to its end.
template <class T, class Fields>
Expected<T> read_body(BytesView body, Fields fields) {
    QUERN_TRY(Reader reader, rlp::decode_list(body));
    T value;
    QUERN_CHECK(fields(reader, value));
    QUERN_CHECK(reader.expect_end());
    return value;
}

void put_status(Writer& writer, const Status& value) {
    writer.begin_list().integer(value.finalized_number).fixed(value.finalized_hash).integer(value.epoch);
    writer.integer(value.view).integer(value.earliest_block).end_list();
}
quern::Status read_status(Reader& reader, Status& value) {
    QUERN_TRY(value.finalized_number, reader.u64());
    QUERN_TRY(value.finalized_hash, reader.fixed<32>());
    QUERN_TRY(value.epoch, reader.u64());
    QUERN_TRY(value.view, reader.u64());
    QUERN_TRY(value.earliest_block, reader.u64());
    return {};
}

template <class Range>
void put_strings(Writer& writer, const Range& items) {
    writer.begin_list();
    for (const auto& item : items) writer.bytes(BytesView(item));
    writer.end_list();
}

Bytes finish(Writer& writer) { return std::move(writer).finish(); }

void put_block_answer(Writer& writer, const BlockAnswer& value) {
    writer.begin_list().bytes(value.block).bytes(value.certificate).end_list();
}
quern::Status read_block_answer(Reader& reader, BlockAnswer& value) {
    QUERN_TRY(value.block, read_string(reader));
    QUERN_TRY(value.certificate, read_string(reader));
    if (value.block.empty()) return fail("message.empty", "no block");
    return {};
}

}  // namespace

Bytes encode(const Status& value) {
    Writer writer;
    put_status(writer, value);
    return finish(writer);
}
Expected<Status> decode_status(BytesView body) { return read_body<Status>(body, read_status); }

Bytes encode(const Hello& value) {
    Writer writer;
    writer.begin_list().integer(std::uint64_t{value.version}).bytes(as_bytes(value.agent));
    writer.integer(std::uint64_t{value.listen_port});
    put_status(writer, value.status);
    writer.end_list();
    return finish(writer);
}
Expected<Hello> decode_hello(BytesView body) {
    return read_body<Hello>(body, [](Reader& reader, Hello& value) -> quern::Status {
        QUERN_TRY(const std::uint64_t version, reader.u64());
        QUERN_TRY(value.agent, read_text(reader, kMaxAgent));
        QUERN_TRY(const std::uint64_t port, reader.u64());
        if (version > 0xffff || port > 0xffff) return fail("message.out_of_range");
        value.version = static_cast<std::uint16_t>(version);
        value.listen_port = static_cast<std::uint16_t>(port);
        QUERN_TRY(Reader status, reader.list());
        QUERN_CHECK(read_status(status, value.status));
        return status.expect_end();
    });
}

Bytes encode(const GetPeers& value) {
    Writer writer;
    writer.begin_list().integer(value.limit).end_list();
    return finish(writer);
}
Expected<GetPeers> decode_get_peers(BytesView body) {
    return read_body<GetPeers>(body, [](Reader& reader, GetPeers& value) -> quern::Status {
        QUERN_TRY(value.limit, reader.u64());
        return {};
    });
}

Bytes encode(const Peers& value) {
    Writer writer;
    put_strings(writer, value.records);
    return finish(writer);
}
namespace {
// Bodies that are nothing but a list of strings.
template <class T>
Expected<std::vector<T>> strings_of(BytesView body, std::size_t limit) {
    QUERN_TRY(const rlp::Item item, rlp::decode_single(body));
    Reader whole(item.whole);
    std::vector<T> out;
    if constexpr (std::is_same_v<T, Bytes>)
        QUERN_CHECK(read_list(whole, out, limit, read_string));
    else
        QUERN_CHECK(read_list(whole, out, limit, [](Reader& reader) { return reader.fixed<T::kSize>(); }));
    return out;
}
}  // namespace
Expected<Peers> decode_peers(BytesView body) {
    QUERN_TRY(auto records, strings_of<Bytes>(body, kMaxPeersInAnswer));
    return Peers{std::move(records)};
}

Bytes encode(const ShortIds& value) {
    Writer writer;
    put_strings(writer, value.ids);
    return finish(writer);
}
Expected<ShortIds> decode_short_ids(BytesView body) {
    QUERN_TRY(auto ids, strings_of<ShortId>(body, kMaxShortIds));
    if (ids.empty()) return fail("message.empty");
    return ShortIds{std::move(ids)};
}

Bytes encode(const Transactions& value) {
    Writer writer;
    put_strings(writer, value.encoded);
    return finish(writer);
}
Expected<Transactions> decode_transactions(BytesView body) {
    QUERN_TRY(auto encoded, strings_of<Bytes>(body, kMaxShortIds));
    return Transactions{std::move(encoded)};
}

Bytes encode(const CompactBlock& value) {
    Writer withdrawals;
    withdrawals.begin_list();
    for (const auto& each : value.withdrawals) {
        withdrawals.begin_list().integer(each.index).integer(each.validator_index).fixed(each.address);
        withdrawals.integer(each.amount_gwei).end_list();
    }
    withdrawals.end_list();
    Writer writer;
    writer.begin_list().bytes(chain::types::encode(value.header)).integer(value.salt);
    put_strings(writer, value.ids);
    writer.begin_list();
    for (const auto& each : value.prefilled) writer.begin_list().integer(each.index).bytes(each.encoded).end_list();
    writer.end_list().bytes(finish(withdrawals)).bytes(value.parent_certificate).bytes(value.certificate).end_list();
    return finish(writer);
}
namespace {
constexpr std::size_t kMaxWithdrawals = 16;
Expected<chain::types::Withdrawal> read_withdrawal(Reader& reader) {
    QUERN_TRY(Reader fields, reader.list());
    chain::types::Withdrawal value;
    QUERN_TRY(value.index, fields.u64());
    QUERN_TRY(value.validator_index, fields.u64());
    QUERN_TRY(value.address, fields.fixed<20>());
    QUERN_TRY(value.amount_gwei, fields.u64());
    QUERN_CHECK(fields.expect_end());
    return value;
}
Expected<PrefilledTransaction> read_prefilled(Reader& reader) {
    QUERN_TRY(Reader fields, reader.list());
    PrefilledTransaction value;
    QUERN_TRY(value.index, fields.u64());
    QUERN_TRY(value.encoded, read_string(fields));
    QUERN_CHECK(fields.expect_end());
    // A legacy transaction stands in the block's list as it is: bytes that are no single item would become several.
    if (!value.encoded.empty() && value.encoded[0] >= 0xc0 && !rlp::decode_single(value.encoded))
        return fail("message.bad_envelope", "index " + std::to_string(value.index));
    return value;
}
}  // namespace
Expected<CompactBlock> decode_compact_block(BytesView body) {
    return read_body<CompactBlock>(body, [](Reader& reader, CompactBlock& value) -> quern::Status {
        QUERN_TRY(const BytesView header, reader.bytes());
        QUERN_TRY(value.header, chain::types::decode_header(header));
        QUERN_TRY(value.salt, reader.u64());
        QUERN_CHECK(read_list(reader, value.ids, kMaxBlockTransactions, [](Reader& list) { return list.fixed<8>(); }));
        QUERN_CHECK(read_list(reader, value.prefilled, kMaxBlockTransactions, read_prefilled));
        QUERN_TRY(const BytesView withdrawals, reader.bytes());
        QUERN_TRY(const rlp::Item item, rlp::decode_single(withdrawals));
        Reader whole(item.whole);
        QUERN_CHECK(read_list(whole, value.withdrawals, kMaxWithdrawals, read_withdrawal));
        QUERN_TRY(value.parent_certificate, read_string(reader));
        QUERN_TRY(value.certificate, read_string(reader));
        if (value.transaction_count() > kMaxBlockTransactions) return fail("message.too_many", "transactions");
        std::uint64_t least = 0;
        for (const auto& each : value.prefilled) {
            if (each.index < least || each.index >= value.transaction_count()) return fail("message.bad_index");
            least = each.index + 1;
        }
        return {};
    });
}

Bytes encode(const GetBlockTransactions& value) {
    Writer writer;
    writer.begin_list().fixed(value.block).begin_list();
    for (const auto index : value.indexes) writer.integer(index);
    writer.end_list().end_list();
    return finish(writer);
}
Expected<GetBlockTransactions> decode_get_block_transactions(BytesView body) {
    return read_body<GetBlockTransactions>(body, [](Reader& reader, GetBlockTransactions& value) -> quern::Status {
        QUERN_TRY(value.block, reader.fixed<32>());
        QUERN_CHECK(read_list(reader, value.indexes, kMaxBlockTransactions, [](Reader& list) { return list.u64(); }));
        if (value.indexes.empty()) return fail("message.empty");
        for (std::size_t i = 0; i < value.indexes.size(); ++i)
            if (value.indexes[i] >= kMaxBlockTransactions || (i != 0 && value.indexes[i] <= value.indexes[i - 1]))
                return fail("message.bad_index");
        return {};
    });
}

Bytes encode(const BlockTransactions& value) {
    Writer writer;
    writer.begin_list().fixed(value.block);
    put_strings(writer, value.encoded);
    writer.end_list();
    return finish(writer);
}
Expected<BlockTransactions> decode_block_transactions(BytesView body) {
    return read_body<BlockTransactions>(body, [](Reader& reader, BlockTransactions& value) -> quern::Status {
        QUERN_TRY(value.block, reader.fixed<32>());
        return read_list(reader, value.encoded, kMaxBlockTransactions, read_string);
    });
}

Bytes encode(const GetBlock& value) {
    Writer writer;
    writer.begin_list().fixed(value.hash).end_list();
    return finish(writer);
}
Expected<GetBlock> decode_get_block(BytesView body) {
    return read_body<GetBlock>(body, [](Reader& reader, GetBlock& value) -> quern::Status {
        QUERN_TRY(value.hash, reader.fixed<32>());
        return {};
    });
}

Bytes encode(const BlockAnswer& value) {
    Writer writer;
    put_block_answer(writer, value);
    return finish(writer);
}
Expected<BlockAnswer> decode_block_answer(BytesView body) { return read_body<BlockAnswer>(body, read_block_answer); }

Bytes encode(const GetCertificate& value) {
    Writer writer;
    writer.begin_list().integer(std::uint64_t{value.kind}).integer(value.epoch).integer(value.view).end_list();
    return finish(writer);
}
Expected<GetCertificate> decode_get_certificate(BytesView body) {
    return read_body<GetCertificate>(body, [](Reader& reader, GetCertificate& value) -> quern::Status {
        QUERN_TRY(const std::uint64_t kind, reader.u64());
        if (kind > 0xff) return fail("message.out_of_range");
        value.kind = static_cast<std::uint8_t>(kind);
        QUERN_TRY(value.epoch, reader.u64());
        QUERN_TRY(value.view, reader.u64());
        return {};
    });
}

Bytes encode(const CertificateAnswer& value) {
    Writer writer;
    put_strings(writer, value.certificates);
    return finish(writer);
}
Expected<CertificateAnswer> decode_certificate_answer(BytesView body) {
    QUERN_TRY(auto certificates, strings_of<Bytes>(body, kMaxCertificatesInAnswer));
    if (certificates.empty()) return fail("message.empty");
    for (const auto& certificate : certificates)
        if (certificate.empty()) return fail("message.empty");
    return CertificateAnswer{std::move(certificates)};
}

Bytes encode(const GetRange& value) {
    Writer writer;
    writer.begin_list().integer(value.first).integer(value.count).integer(value.max_bytes).end_list();
    return finish(writer);
}
Expected<GetRange> decode_get_range(BytesView body) {
    return read_body<GetRange>(body, [](Reader& reader, GetRange& value) -> quern::Status {
        QUERN_TRY(value.first, reader.u64());
        QUERN_TRY(value.count, reader.u64());
        QUERN_TRY(value.max_bytes, reader.u64());
        if (value.count == 0 || value.count > kMaxRangeBlocks || value.first > ~value.count)
            return fail("message.out_of_range");
        return {};
    });
}

Bytes encode(const Range& value) {
    Writer writer;
    writer.begin_list();
    for (const auto& each : value.blocks) put_block_answer(writer, each);
    writer.end_list();
    return finish(writer);
}
Expected<Range> decode_range(BytesView body) {
    QUERN_TRY(const rlp::Item item, rlp::decode_single(body));
    Reader whole(item.whole);
    Range value;
    QUERN_CHECK(read_list(whole, value.blocks, kMaxRangeBlocks, [](Reader& list) -> Expected<BlockAnswer> {
        QUERN_TRY(Reader fields, list.list());
        BlockAnswer answer;
        QUERN_CHECK(read_block_answer(fields, answer));
        QUERN_CHECK(fields.expect_end());
        return answer;
    }));
    return value;
}

Bytes encode(const FindContent& value) {
    Writer writer;
    put_strings(writer, value.ids);
    return finish(writer);
}
Expected<FindContent> decode_find_content(BytesView body) {
    QUERN_TRY(auto ids, strings_of<Hash32>(body, kMaxFindContent));
    if (ids.empty()) return fail("message.empty");
    return FindContent{std::move(ids)};
}

Bytes encode(const ContentInfo& value) {
    Writer writer;
    writer.begin_list();
    for (const auto& each : value.holdings)
        writer.begin_list().fixed(each.id).integer(each.size).bytes(each.chunks).end_list();
    writer.end_list();
    return finish(writer);
}
Expected<ContentInfo> decode_content_info(BytesView body) {
    QUERN_TRY(const rlp::Item item, rlp::decode_single(body));
    Reader whole(item.whole);
    ContentInfo value;
    QUERN_CHECK(read_list(whole, value.holdings, kMaxFindContent, [](Reader& list) -> Expected<ContentHolding> {
        QUERN_TRY(Reader fields, list.list());
        ContentHolding holding;
        QUERN_TRY(holding.id, fields.fixed<32>());
        QUERN_TRY(holding.size, fields.u64());
        QUERN_TRY(holding.chunks, read_string(fields));
        QUERN_CHECK(fields.expect_end());
        if (holding.size > kMaxContentBytes) return fail("message.out_of_range", "content size");
        const std::uint64_t chunks = (holding.size + kChunkBytes - 1) / kChunkBytes;
        if (!holding.chunks.empty() && holding.chunks.size() != (chunks + 7) / 8) return fail("message.bad_bitmap");
        if (!holding.chunks.empty() && chunks % 8 != 0 && (holding.chunks.back() >> (chunks % 8)) != 0)
            return fail("message.bad_bitmap");
        return holding;
    }));
    return value;
}

Bytes encode(const GetLeaves& value) {
    Writer writer;
    writer.begin_list().fixed(value.id).integer(value.first).integer(value.count).end_list();
    return finish(writer);
}
Expected<GetLeaves> decode_get_leaves(BytesView body, std::uint64_t max_count) {
    return read_body<GetLeaves>(body, [max_count](Reader& reader, GetLeaves& value) -> quern::Status {
        QUERN_TRY(value.id, reader.fixed<32>());
        QUERN_TRY(value.first, reader.u64());
        QUERN_TRY(value.count, reader.u64());
        if (value.count == 0 || value.count > max_count || value.first > kMaxContentBytes / 16'384)
            return fail("message.out_of_range");
        return {};
    });
}

Bytes encode(const Leaves& value) {
    Writer writer;
    writer.begin_list().fixed(value.id).integer(value.first).bytes(value.bytes).end_list();
    return finish(writer);
}
Expected<Leaves> decode_leaves(BytesView body) {
    return read_body<Leaves>(body, [](Reader& reader, Leaves& value) -> quern::Status {
        QUERN_TRY(value.id, reader.fixed<32>());
        QUERN_TRY(value.first, reader.u64());
        QUERN_TRY(value.bytes, read_string(reader));
        return {};
    });
}

Bytes encode(const Refusal& value) {
    Writer writer;
    writer.begin_list().integer(static_cast<std::uint64_t>(value.code));
    writer.bytes(as_bytes(value.detail)).end_list();
    return finish(writer);
}
Expected<Refusal> decode_refusal(BytesView body) {
    return read_body<Refusal>(body, [](Reader& reader, Refusal& value) -> quern::Status {
        QUERN_TRY(const std::uint64_t code, reader.u64());
        if (code == 0 || code > static_cast<std::uint64_t>(RefusalCode::unsupported))
            return fail("message.out_of_range");
        value.code = static_cast<RefusalCode>(code);
        QUERN_TRY(value.detail, read_text(reader, kMaxRefusalDetail));
        return {};
    });
}

}  // namespace quern::p2p::messages
