#include "p2p/messages/peer_record.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::p2p::messages {
namespace {

constexpr std::string_view kDomain = "QUERN-PEERRECORD";
constexpr std::uint64_t kVersion = 1;

void put_fields(rlp::Writer& writer, const PeerRecord& record) {
    writer.integer(record.chain_id).fixed(record.address).integer(record.sequence).integer(record.expiry);
    writer.integer(std::uint64_t{record.roles}).begin_list();
    for (const auto& endpoint : record.endpoints)
        writer.begin_list().bytes(as_bytes(endpoint.host)).integer(std::uint64_t{endpoint.port}).end_list();
    writer.end_list();
}

Hash32 digest_of(const PeerRecord& record) {
    rlp::Writer writer;
    writer.begin_list();
    put_fields(writer, record);
    writer.end_list();
    return crypto::sha256({as_bytes(kDomain), std::move(writer).finish()});
}

}  // namespace

bool is_host(std::string_view text) {
    if (text.empty() || text.size() > kMaxHostBytes) return false;
    for (const char c : text) {
        const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                          c == '-' || c == ':';
        if (!good) return false;
    }
    return true;
}

void sign(PeerRecord& record, const crypto::PrivateKey& chain_key) {
    record.signature = crypto::sign(digest_of(record), chain_key);
}

Bytes encode(const PeerRecord& record) {
    rlp::Writer writer;
    writer.begin_list().integer(kVersion);
    put_fields(writer, record);
    writer.integer(std::uint64_t{record.signature.y_parity}).fixed(record.signature.r).fixed(record.signature.s);
    writer.end_list();
    return std::move(writer).finish();
}

Expected<PeerRecord> decode_peer_record(BytesView bytes) {
    if (bytes.size() > kMaxPeerRecordBytes) return fail("peer_record.too_large");
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    QUERN_TRY(const std::uint64_t version, reader.u64());
    if (version != kVersion) return fail("peer_record.bad_version");
    PeerRecord record;
    QUERN_TRY(record.chain_id, reader.u64());
    QUERN_TRY(record.address, reader.fixed<20>());
    QUERN_TRY(record.sequence, reader.u64());
    QUERN_TRY(record.expiry, reader.u64());
    QUERN_TRY(const std::uint64_t roles, reader.u64());
    if (roles > 0xffffffff) return fail("rlp.integer_overflow");
    record.roles = static_cast<std::uint32_t>(roles);
    QUERN_TRY(rlp::Reader endpoints, reader.list());
    while (!endpoints.at_end()) {
        if (record.endpoints.size() >= kMaxEndpoints) return fail("peer_record.too_many_endpoints");
        QUERN_TRY(rlp::Reader fields, endpoints.list());
        QUERN_TRY(const BytesView host, fields.bytes());
        QUERN_TRY(const std::uint64_t port, fields.u64());
        QUERN_CHECK(fields.expect_end());
        if (!is_host(as_text(host))) return fail("peer_record.bad_host");
        if (port == 0 || port > 0xffff) return fail("peer_record.bad_port");
        record.endpoints.push_back({std::string(as_text(host)), static_cast<std::uint16_t>(port)});
    }
    QUERN_TRY(const std::uint64_t parity, reader.u64());
    if (parity > 1) return fail("peer_record.bad_parity");
    record.signature.y_parity = static_cast<std::uint8_t>(parity);
    QUERN_TRY(record.signature.r, reader.fixed<32>());
    QUERN_TRY(record.signature.s, reader.fixed<32>());
    QUERN_CHECK(reader.expect_end());
    if (!crypto::is_low_s(record.signature.s)) return fail("peer_record.bad_signature", "high s");
    const auto signer = crypto::recover(digest_of(record), record.signature);
    if (!signer) return fail("peer_record.bad_signature", signer.error().to_string());
    if (crypto::address20(*signer) != record.address) return fail("peer_record.wrong_signer");
    return record;
}

}  // namespace quern::p2p::messages
