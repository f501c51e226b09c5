#include "chain/consensus/safety_journal.h"

#include "base/fs.h"
#include "base/rlp.h"
#include "chain/types/block.h"
#include "crypto/hash.h"

namespace quern::chain::consensus {
namespace {
constexpr std::string_view kMagic = "QRNSAFE1";
constexpr std::size_t kMaxFileBytes = types::kMaxBlockBytes + 1024;
}  // namespace

Bytes encode(const SignedProposal& proposal) {
    rlp::Writer writer;
    writer.begin_list().integer(proposal.epoch).integer(proposal.view).integer(proposal.number).fixed(proposal.hash);
    writer.bytes(proposal.block).end_list();
    Bytes out = to_bytes(as_bytes(kMagic));
    append(out, std::move(writer).finish());
    append(out, crypto::sha256(out));
    return out;
}

Expected<SignedProposal> decode_signed_proposal(BytesView bytes) {
    if (bytes.size() < kMagic.size() + 32 || !equal(bytes.first(kMagic.size()), as_bytes(kMagic)))
        return fail("consensus.journal_corrupt", "no valid header");
    const BytesView body = bytes.first(bytes.size() - 32);
    if (!equal(crypto::sha256(body), bytes.last(32))) return fail("consensus.journal_corrupt", "checksum");
    SignedProposal proposal;
    QUERN_TRY(auto reader, rlp::decode_list(body.subspan(kMagic.size())));
    QUERN_TRY(proposal.epoch, reader.u64());
    QUERN_TRY(proposal.view, reader.u64());
    QUERN_TRY(proposal.number, reader.u64());
    QUERN_TRY(proposal.hash, reader.fixed<32>());
    QUERN_TRY(const auto block, reader.bytes());
    proposal.block = to_bytes(block);
    QUERN_CHECK(reader.expect_end());
    return proposal;
}

Status check_may_sign(const std::optional<SignedProposal>& last, const SignedProposal& next) {
    if (!last || next.position() > last->position()) return {};
    if (next.position() == last->position() && next.hash == last->hash) return {};
    return fail("consensus.would_sign_twice", "epoch " + std::to_string(next.epoch) + " view " +
                                                  std::to_string(next.view) + ": signed " + to_hex0x(last->hash) +
                                                  " in epoch " + std::to_string(last->epoch) + " view " +
                                                  std::to_string(last->view) + " already");
}

Expected<FileSafetyJournal> FileSafetyJournal::open(std::string path) {
    FileSafetyJournal journal(std::move(path));
    const auto bytes = fs::read_file(journal.path_, kMaxFileBytes);
    if (!bytes && bytes.error().name == "fs.not_found") return journal;
    if (!bytes) return fail("consensus.journal_read_failed", bytes.error().to_string());
    auto proposal = decode_signed_proposal(*bytes);
    if (!proposal) return fail("consensus.journal_corrupt", journal.path_ + ": " + proposal.error().to_string());
    journal.last_ = std::move(*proposal);
    return journal;
}

Status FileSafetyJournal::store(const SignedProposal& proposal) {
    QUERN_CHECK(check_may_sign(last_, proposal));
    if (const auto written = fs::write_file_atomic(path_, encode(proposal), 0600); !written)
        return fail("consensus.journal_write_failed", written.error().to_string());
    last_ = proposal;
    return {};
}

}  // namespace quern::chain::consensus
