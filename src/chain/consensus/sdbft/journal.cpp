#include "chain/consensus/sdbft/journal.h"

#include "base/big_endian.h"
#include "crypto/hash.h"

namespace quern::chain::consensus::sdbft {
namespace {

constexpr std::string_view kMagic = "QJR1";
constexpr std::size_t kHeadBytes = 4 + 4 + 8 + 1;
constexpr std::size_t kChecksumBytes = 8;
static_assert(kHeadBytes + kChecksumBytes == kJournalFrameBytes);

struct Frame {
    std::uint64_t sequence = 0;
    Record record;
    std::size_t size = 0;
};

// The log through a window that moves forward.
class Window {
public:
    Window(std::uint64_t size, const ReadLog& read) : size_(size), read_(read) {}
    [[nodiscard]] std::uint64_t left(std::uint64_t offset) const { return size_ - std::min(offset, size_); }
    // `count` bytes, which are there (left).
    [[nodiscard]] Expected<BytesView> at(std::uint64_t offset, std::size_t count) {
        if (offset < begin_ || offset + count > begin_ + bytes_.size()) {
            const auto wanted = static_cast<std::size_t>(
                std::min<std::uint64_t>(left(offset), std::max<std::size_t>(count, kWindowBytes)));
            QUERN_TRY(bytes_, read_(offset, wanted));
            begin_ = offset;
            if (bytes_.size() < count) return fault("journal.read_failed", "the log became shorter");
        }
        return BytesView(bytes_).subspan(static_cast<std::size_t>(offset - begin_), count);
    }

private:
    static constexpr std::size_t kWindowBytes = 1U << 20;
    std::uint64_t size_;
    const ReadLog& read_;
    std::uint64_t begin_ = 0;
    Bytes bytes_;
};

// The whole and undamaged frame that begins there, if one does.
Expected<std::optional<Frame>> read_frame(Window& log, std::uint64_t offset) {
    if (log.left(offset) < kHeadBytes + kChecksumBytes) return std::optional<Frame>();
    QUERN_TRY(const BytesView head, log.at(offset, kHeadBytes));
    if (!equal(head.first(4), as_bytes(kMagic))) return std::optional<Frame>();
    const std::uint64_t length = from_big_endian(head.subspan(4, 4));
    if (length > kMaxRecordBytes || length > log.left(offset) - kHeadBytes - kChecksumBytes)
        return std::optional<Frame>();
    const auto size = static_cast<std::size_t>(kHeadBytes + length + kChecksumBytes);
    QUERN_TRY(const BytesView whole, log.at(offset, size));
    const BytesView body = whole.first(size - kChecksumBytes);
    const Hash32 checksum = crypto::sha256(body);
    if (!equal(checksum.view().first(kChecksumBytes), whole.subspan(body.size()))) return std::optional<Frame>();
    const std::uint8_t kind = body[16];
    if (kind < 1 || kind > 4) return std::optional<Frame>();
    return std::optional(Frame{from_big_endian(body.subspan(8, 8)),
                               Record{static_cast<RecordKind>(kind), to_bytes(body.subspan(kHeadBytes))}, size});
}

// Where the first whole frame from `offset` on begins.
Expected<std::optional<std::uint64_t>> find_frame(Window& log, std::uint64_t offset) {
    for (; log.left(offset) >= kHeadBytes + kChecksumBytes; ++offset) {
        QUERN_TRY(const BytesView first, log.at(offset, 1));
        if (first[0] != static_cast<std::uint8_t>(kMagic[0])) continue;
        QUERN_TRY(const auto frame, read_frame(log, offset));
        if (frame) return std::optional(offset);
    }
    return std::optional<std::uint64_t>();
}

}  // namespace

Status OwnVote::check() const { return is_vote_type(vote.type) ? Status() : fail("journal.bad_record", "vote type"); }

Record record_of(const OwnVote& vote) { return {RecordKind::own_vote, record::encode_record(vote)}; }

Expected<OwnVote> decode_own_vote(BytesView payload) { return record::decode_record<OwnVote>(payload); }

Bytes encode_frame(std::uint64_t sequence, const Record& record) {
    Bytes out = to_bytes(as_bytes(kMagic));
    append_big_endian(out, record.payload.size(), 4);
    append_big_endian(out, sequence, 8);
    out.push_back(static_cast<std::uint8_t>(record.kind));
    append(out, record.payload);
    const Hash32 checksum = crypto::sha256(out);
    append(out, checksum.view().first(kChecksumBytes));
    return out;
}

Expected<Recovered> recover(std::uint64_t size, const ReadLog& read) {
    Recovered recovered;
    Window log(size, read);
    for (;;) {
        QUERN_TRY(auto frame, read_frame(log, recovered.valid_bytes));
        if (!frame || (!recovered.records.empty() && frame->sequence != recovered.next_sequence)) break;
        recovered.next_sequence = frame->sequence + 1;
        recovered.valid_bytes += frame->size;
        recovered.records.push_back(std::move(frame->record));
    }
    // Appends are synced in order: a whole frame behind a broken one means that synced bytes were damaged.
    QUERN_TRY(const auto behind, find_frame(log, recovered.valid_bytes));
    if (behind)
        return fault("journal.corrupt", "damaged at byte " + std::to_string(recovered.valid_bytes) +
                                            ", whole records follow at byte " + std::to_string(*behind));
    return recovered;
}

Expected<Recovered> recover(BytesView log) {
    return recover(log.size(), [log](std::uint64_t offset, std::size_t count) -> Expected<Bytes> {
        return to_bytes(log.subspan(static_cast<std::size_t>(offset), count));
    });
}

}  // namespace quern::chain::consensus::sdbft
