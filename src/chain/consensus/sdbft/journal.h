// What a validator must find again after a crash (rule 7): its own votes and proposals, the blocks it voted for, the
// certificates that moved it. An append-only log; what is not wholly there at the end was never acted upon and is cut
// off. Here are the codec, which is pure, and what a driver keeps the records in (node/agree/file_journal.h: a file).
//
//   log    = frame...
//   frame  = "QJR1" || length (4) || sequence (8) || kind (1) || payload (length) || checksum (8)
//   checksum = first 8 bytes of SHA-256 of all before; numbers are big endian; sequences rise by 1 from frame to frame
//   payload of 1 own vote     = rlp([type, epoch, view, hash, signature])
//              2 own proposal = the PROPOSE message (messages.h)
//              3 block        = the block's encoding
//              4 certificate  = the certificate's encoding
#pragma once

#include <functional>

#include "chain/consensus/sdbft/messages.h"

namespace quern::chain::consensus::sdbft {

enum class RecordKind : std::uint8_t { own_vote = 1, own_proposal = 2, block = 3, certificate = 4 };

struct Record {
    RecordKind kind = RecordKind::own_vote;
    Bytes payload;
    bool operator==(const Record&) const = default;
};

struct OwnVote {
    Vote vote;
    Signature signature;
    QUERN_FIELDS(v("type", vote.type), v("epoch", vote.epoch), v("view", vote.view), v("hash", vote.hash),
                 v("signature", signature))
    [[nodiscard]] Status check() const;
    bool operator==(const OwnVote&) const = default;
};
[[nodiscard]] Record record_of(const OwnVote& vote);
// Errors: journal.bad_record, rlp.*.
[[nodiscard]] Expected<OwnVote> decode_own_vote(BytesView payload);

[[nodiscard]] Bytes encode_frame(std::uint64_t sequence, const Record& record);

struct Recovered {
    std::vector<Record> records;
    std::uint64_t next_sequence = 0;  // of the next frame
    std::uint64_t valid_bytes = 0;    // what follows is an unfinished write
};
// `count` bytes of the log from `offset` on, which are there.
using ReadLog = std::function<Expected<Bytes>(std::uint64_t offset, std::size_t count)>;
// A log of any size, of which little more than one frame is in memory at a time besides the records. An unfinished
// frame at the end is no error: nothing that depends on it has left the process. A damaged frame with whole ones after
// it is one, because what was lost had been synced. Errors: journal.corrupt, those of `read`.
[[nodiscard]] Expected<Recovered> recover(std::uint64_t size, const ReadLog& read);
[[nodiscard]] Expected<Recovered> recover(BytesView log);

inline constexpr std::size_t kJournalFrameBytes = 25;             // of a frame, besides the payload
inline constexpr std::size_t kMaxRecordBytes = kMaxMessageBytes;  // a PROPOSE message is the longest record

// What a driver keeps the records in. Belongs to one thread.
class Journal {
public:
    virtual ~Journal() = default;
    // Durable when it returns. After an error nothing more may be signed.
    [[nodiscard]] virtual Status append(const std::vector<Record>& records) = 0;
    // The whole content, replaced atomically and durably.
    [[nodiscard]] virtual Status replace(const std::vector<Record>& records) = 0;
    // Erased durably: this key's history turned out to be elsewhere. Nothing may follow.
    [[nodiscard]] virtual Status erase() = 0;
};

}  // namespace quern::chain::consensus::sdbft
