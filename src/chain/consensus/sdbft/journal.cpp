#include "chain/consensus/sdbft/journal.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::consensus::sdbft {
namespace {

constexpr std::string_view kMagic = "QJR1";
constexpr std::size_t kHeadBytes = 4 + 4 + 8 + 1;
constexpr std::size_t kChecksumBytes = 8;

void put_number(Bytes& out, std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
}
std::uint64_t get_number(BytesView bytes) {
    std::uint64_t value = 0;
    for (const auto byte : bytes) value = value << 8 | byte;
    return value;
}

struct Frame {
    std::uint64_t sequence = 0;
    Record record;
    std::size_t size = 0;
};
std::optional<Frame> read_frame(BytesView log) {
    if (log.size() < kHeadBytes + kChecksumBytes || !equal(log.first(4), as_bytes(kMagic))) return std::nullopt;
    const std::uint64_t length = get_number(log.subspan(4, 4));
    if (length > log.size() - kHeadBytes - kChecksumBytes) return std::nullopt;
    const BytesView body = log.first(kHeadBytes + length);
    const Hash32 checksum = crypto::sha256(body);
    if (!equal(checksum.view().first(kChecksumBytes), log.subspan(body.size(), kChecksumBytes))) return std::nullopt;
    const std::uint8_t kind = body[16];
    if (kind < 1 || kind > 4) return std::nullopt;
    return Frame{get_number(body.subspan(8, 8)),
                 Record{static_cast<RecordKind>(kind), to_bytes(body.subspan(kHeadBytes))},
                 body.size() + kChecksumBytes};
}

}  // namespace

Record record_of(const OwnVote& vote) {
    rlp::Writer writer;
    writer.begin_list().integer(static_cast<std::uint64_t>(vote.vote.type)).integer(vote.vote.epoch);
    writer.integer(vote.vote.view).fixed(vote.vote.hash).fixed(vote.signature).end_list();
    return {RecordKind::own_vote, std::move(writer).finish()};
}

Expected<OwnVote> decode_own_vote(BytesView payload) {
    QUERN_TRY(auto reader, rlp::decode_list(payload));
    OwnVote own;
    QUERN_TRY(const auto type, reader.u64());
    if (type < 1 || type > 4) return fail("journal.bad_record", "vote type");
    own.vote.type = static_cast<VoteType>(type);
    QUERN_TRY(own.vote.epoch, reader.u64());
    QUERN_TRY(own.vote.view, reader.u64());
    QUERN_TRY(own.vote.hash, reader.fixed<32>());
    QUERN_TRY(own.signature, reader.fixed<64>());
    QUERN_CHECK(reader.expect_end());
    return own;
}

Bytes encode_frame(std::uint64_t sequence, const Record& record) {
    Bytes out = to_bytes(as_bytes(kMagic));
    put_number(out, record.payload.size(), 4);
    put_number(out, sequence, 8);
    out.push_back(static_cast<std::uint8_t>(record.kind));
    append(out, record.payload);
    const Hash32 checksum = crypto::sha256(out);
    append(out, checksum.view().first(kChecksumBytes));
    return out;
}

Expected<Recovered> recover(BytesView log) {
    Recovered recovered;
    while (recovered.valid_bytes < log.size()) {
        auto frame = read_frame(log.subspan(recovered.valid_bytes));
        const bool in_order = frame && (recovered.records.empty() || frame->sequence == recovered.next_sequence);
        if (!in_order) break;
        recovered.next_sequence = frame->sequence + 1;
        recovered.valid_bytes += frame->size;
        recovered.records.push_back(std::move(frame->record));
    }
    // Appends are synced in order: a whole frame behind a broken one means that synced bytes were damaged.
    for (std::size_t at = recovered.valid_bytes; at < log.size(); ++at)
        if (log[at] == static_cast<std::uint8_t>(kMagic[0]) && read_frame(log.subspan(at)))
            return fault("journal.corrupt", "damaged at byte " + std::to_string(recovered.valid_bytes) +
                                                ", whole records follow at byte " + std::to_string(at));
    return recovered;
}

}  // namespace quern::chain::consensus::sdbft
