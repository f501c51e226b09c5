#include "p2p/messages/peer_record.h"

#include "crypto/hash.h"

namespace quern::p2p::messages {
namespace {

constexpr std::string_view kDomain = "QUERN-PEERRECORD";
constexpr std::uint64_t kVersion = 1;

// A record as it travels.
struct SignedRecord {
    std::uint64_t version = kVersion;
    PeerRecord record;
    QUERN_FIELDS(v("version", version), record.fields(v), v("yParity", record.signature.y_parity),
                 v("r", record.signature.r), v("s", record.signature.s))
    [[nodiscard]] quern::Status check() const {
        if (version != kVersion) return fail("peer_record.bad_version");
        if (record.signature.y_parity > 1) return fail("peer_record.bad_parity");
        return {};
    }
};

Hash32 digest_of(const PeerRecord& record) {
    return crypto::sha256({as_bytes(kDomain), record::encode_record(record)});
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

quern::Status Endpoint::check() const {
    if (!is_host(host)) return fail("peer_record.bad_host");
    if (port == 0) return fail("peer_record.bad_port");
    return {};
}

Bytes encode(const PeerRecord& record) { return record::encode_record(SignedRecord{kVersion, record}); }

Expected<PeerRecord> decode_peer_record(BytesView bytes) {
    if (bytes.size() > kMaxPeerRecordBytes) return fail("peer_record.too_large");
    QUERN_TRY(auto decoded, record::decode_record<SignedRecord>(bytes));
    const PeerRecord& record = decoded.record;
    if (!crypto::is_low_s(record.signature.s)) return fail("peer_record.bad_signature", "high s");
    const auto signer = crypto::recover(digest_of(record), record.signature);
    if (!signer) return fail("peer_record.bad_signature", signer.error().to_string());
    if (crypto::address20(*signer) != record.address) return fail("peer_record.wrong_signer");
    return std::move(decoded.record);
}

}  // namespace quern::p2p::messages
