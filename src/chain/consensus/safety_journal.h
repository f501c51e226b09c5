// What this validator signed last, kept so that a crash never makes it sign twice for one view: the record, with the
// whole block, is durable before the signature exists, and after a restart the same bytes are proposed again. One file,
// replaced atomically and synced with its directory. Belongs to the chain thread.
//
//   file = "QRNSAFE1" || rlp([epoch, view, number, hash, block]) || SHA-256 of all before
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"

namespace quern::chain::consensus {

struct SignedProposal {
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::uint64_t number = 0;
    Hash32 hash;
    Bytes block;  // encoded
    bool operator==(const SignedProposal&) const = default;
    [[nodiscard]] auto position() const { return std::pair(epoch, view); }
};

class SafetyJournal {
public:
    virtual ~SafetyJournal() = default;
    // The last record; nullopt when the journal has never been written.
    [[nodiscard]] virtual const std::optional<SignedProposal>& last() const = 0;
    // Durable when it returns. Errors: consensus.would_sign_twice (another block for this or an earlier view),
    // consensus.journal_write_failed.
    [[nodiscard]] virtual Status store(const SignedProposal& proposal) = 0;
};

[[nodiscard]] Bytes encode(const SignedProposal& proposal);
[[nodiscard]] Expected<SignedProposal> decode_signed_proposal(BytesView bytes);
// The rule that store() enforces.
[[nodiscard]] Status check_may_sign(const std::optional<SignedProposal>& last, const SignedProposal& next);

class FileSafetyJournal final : public SafetyJournal {
public:
    // A missing file is an empty journal; a damaged one is an error, because what it held is unknown.
    // Errors: consensus.journal_corrupt, consensus.journal_read_failed.
    [[nodiscard]] static Expected<FileSafetyJournal> open(std::string path);
    [[nodiscard]] const std::optional<SignedProposal>& last() const override { return last_; }
    [[nodiscard]] Status store(const SignedProposal& proposal) override;

private:
    explicit FileSafetyJournal(std::string path) : path_(std::move(path)) {}
    std::string path_;
    std::optional<SignedProposal> last_;
};

}  // namespace quern::chain::consensus
