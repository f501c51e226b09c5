#include "chain/consensus/sdbft/messages.h"

#include "base/rlp.h"

namespace quern::chain::consensus::sdbft {
namespace {

// Position in the variant, plus one, is the kind on the wire.
enum Kind : std::uint8_t {
    kPropose = 1,
    kVote,
    kCertificate,
    kCertificateQuery,
    kBlockQuery,
    kBlockAnswer,
    kRangeQuery,
    kRangeAnswer,
    kVoteQuery,
    kVoteAnswer
};

struct Encoder {
    rlp::Writer& out;
    void operator()(const ProposeMessage& m) {
        out.integer(m.epoch).integer(m.view).bytes(m.block);
        out.bytes(m.justification ? encode(*m.justification) : Bytes{}).begin_list();
        for (const auto& certificate : m.nullifications) out.bytes(consensus::encode(certificate));
        out.end_list().fixed(m.signature);
    }
    void operator()(const VoteMessage& m) {
        out.integer(static_cast<std::uint64_t>(m.vote.type)).integer(m.vote.epoch).integer(m.vote.view);
        out.fixed(m.vote.hash).integer(m.member).fixed(m.signature);
    }
    void operator()(const CertificateMessage& m) { out.bytes(consensus::encode(m.certificate)); }
    void operator()(const CertificateQuery& m) { out.integer(m.epoch).integer(m.first_view).integer(m.last_view); }
    void operator()(const BlockQuery& m) { out.fixed(m.hash); }
    void operator()(const BlockAnswer& m) { out.bytes(m.block); }
    void operator()(const RangeQuery& m) { out.integer(m.first_height); }
    void operator()(const RangeAnswer& m) {
        out.integer(m.tip_height).begin_list();
        for (const auto& block : m.blocks) out.bytes(block);
        out.end_list().bytes(consensus::encode(m.certificate));
    }
    void operator()(const VoteQuery& m) { out.fixed(m.key.bytes); }
    void operator()(const VoteAnswer& m) {
        out.integer(m.epoch).fixed(m.key.bytes).begin_list();
        if (m.newest) {
            const Vote& vote = m.newest->vote;
            out.integer(static_cast<std::uint64_t>(vote.type)).integer(vote.epoch).integer(vote.view);
            out.fixed(vote.hash).fixed(m.newest->signature);
        }
        out.end_list();
    }
};

Expected<Bytes> read_block(rlp::Reader& reader) {
    QUERN_TRY(const auto block, reader.bytes());
    if (block.size() > types::kMaxBlockBytes) return fail("message.too_large", "block");
    return to_bytes(block);
}

Expected<Certificate> read_certificate(rlp::Reader& reader) {
    QUERN_TRY(const auto bytes, reader.bytes());
    return decode_certificate(bytes);
}

Expected<Message> read_propose(rlp::Reader& reader) {
    ProposeMessage m;
    QUERN_TRY(m.epoch, reader.u64());
    QUERN_TRY(m.view, reader.u64());
    QUERN_TRY(m.block, read_block(reader));
    QUERN_TRY(const auto justification, reader.bytes());
    if (!justification.empty()) {
        QUERN_TRY(m.justification, decode_certificate(justification));
    }
    QUERN_TRY(auto list, reader.list());
    while (!list.at_end()) {
        if (m.nullifications.size() == kMaxNullificationsPerProposal) return fail("message.too_many", "nullifications");
        QUERN_TRY(auto certificate, read_certificate(list));
        m.nullifications.push_back(std::move(certificate));
    }
    QUERN_TRY(m.signature, reader.fixed<64>());
    return Message(std::move(m));
}

Expected<Message> read_vote(rlp::Reader& reader) {
    VoteMessage m;
    QUERN_TRY(const auto type, reader.u64());
    if (type < static_cast<std::uint64_t>(VoteType::notarize) || type > static_cast<std::uint64_t>(VoteType::finalize))
        return fail("message.bad_vote", "type " + std::to_string(type));
    m.vote.type = static_cast<VoteType>(type);
    QUERN_TRY(m.vote.epoch, reader.u64());
    QUERN_TRY(m.vote.view, reader.u64());
    QUERN_TRY(m.vote.hash, reader.fixed<32>());
    QUERN_TRY(m.member, reader.u64());
    QUERN_TRY(m.signature, reader.fixed<64>());
    if (m.member >= kMaxCommittee) return fail("message.bad_vote", "member");
    if ((m.vote.type == VoteType::nullify) != m.vote.hash.is_zero()) return fail("message.bad_vote", "hash");
    return Message(m);
}

Expected<Message> read_range_answer(rlp::Reader& reader) {
    RangeAnswer m;
    QUERN_TRY(m.tip_height, reader.u64());
    QUERN_TRY(auto list, reader.list());
    while (!list.at_end()) {
        if (m.blocks.size() == kMaxBlocksPerRange) return fail("message.too_many", "blocks");
        QUERN_TRY(auto block, read_block(list));
        m.blocks.push_back(std::move(block));
    }
    QUERN_TRY(m.certificate, read_certificate(reader));
    return Message(std::move(m));
}

Expected<Message> read_vote_answer(rlp::Reader& reader) {
    VoteAnswer m;
    QUERN_TRY(m.epoch, reader.u64());
    QUERN_TRY(m.key.bytes, reader.fixed<64>());
    QUERN_TRY(auto list, reader.list());
    if (list.at_end()) return Message(m);
    VoteAnswer::Signed newest;
    QUERN_TRY(const auto type, list.u64());
    if (type < static_cast<std::uint64_t>(VoteType::propose) || type > static_cast<std::uint64_t>(VoteType::finalize))
        return fail("message.bad_vote", "type " + std::to_string(type));
    newest.vote.type = static_cast<VoteType>(type);
    QUERN_TRY(newest.vote.epoch, list.u64());
    QUERN_TRY(newest.vote.view, list.u64());
    QUERN_TRY(newest.vote.hash, list.fixed<32>());
    QUERN_TRY(newest.signature, list.fixed<64>());
    QUERN_CHECK(list.expect_end());
    m.newest = newest;
    return Message(m);
}

Expected<Message> read_body(std::uint8_t kind, rlp::Reader& reader) {
    switch (kind) {
        case kPropose:
            return read_propose(reader);
        case kVote:
            return read_vote(reader);
        case kCertificate: {
            QUERN_TRY(auto certificate, read_certificate(reader));
            return Message(CertificateMessage{std::move(certificate)});
        }
        case kCertificateQuery: {
            CertificateQuery m;
            QUERN_TRY(m.epoch, reader.u64());
            QUERN_TRY(m.first_view, reader.u64());
            QUERN_TRY(m.last_view, reader.u64());
            return Message(m);
        }
        case kBlockQuery: {
            QUERN_TRY(const auto hash, reader.fixed<32>());
            return Message(BlockQuery{hash});
        }
        case kBlockAnswer: {
            QUERN_TRY(auto block, read_block(reader));
            return Message(BlockAnswer{std::move(block)});
        }
        case kRangeQuery: {
            QUERN_TRY(const auto height, reader.u64());
            return Message(RangeQuery{height});
        }
        case kRangeAnswer:
            return read_range_answer(reader);
        case kVoteQuery: {
            VoteQuery m;
            QUERN_TRY(m.key.bytes, reader.fixed<64>());
            return Message(m);
        }
        case kVoteAnswer:
            return read_vote_answer(reader);
        default:
            return fail("message.unknown_kind", std::to_string(kind));
    }
}

std::string short_hash(const Hash32& hash) { return to_hex(hash.view().first(4)); }
std::string place(std::uint64_t epoch, std::uint64_t view) {
    return std::to_string(epoch) + "." + std::to_string(view);
}

struct Describer {
    std::string operator()(const ProposeMessage& m) {
        return "PROPOSE " + place(m.epoch, m.view) + " " + std::to_string(m.block.size()) + " bytes" +
               (m.justification ? std::string(", again after ").append(describe(*m.justification)) : std::string()) +
               ", " + std::to_string(m.nullifications.size()) + " nullifications";
    }
    std::string operator()(const VoteMessage& m) {
        return std::string(name_of(m.vote.type)) + " " + place(m.vote.epoch, m.vote.view) +
               (m.vote.type == VoteType::nullify ? std::string() : std::string(" ").append(short_hash(m.vote.hash))) +
               " by member " + std::to_string(m.member);
    }
    std::string operator()(const CertificateMessage& m) { return "certificate of " + describe(m.certificate); }
    std::string operator()(const CertificateQuery& m) {
        return "certificates? " + place(m.epoch, m.first_view) + ".." + std::to_string(m.last_view);
    }
    std::string operator()(const BlockQuery& m) { return "block? " + short_hash(m.hash); }
    std::string operator()(const BlockAnswer& m) { return "block, " + std::to_string(m.block.size()) + " bytes"; }
    std::string operator()(const RangeQuery& m) { return "blocks from " + std::to_string(m.first_height) + "?"; }
    std::string operator()(const RangeAnswer& m) {
        return std::to_string(m.blocks.size()) + " blocks under " + describe(m.certificate) + ", tip " +
               std::to_string(m.tip_height);
    }
    std::string operator()(const VoteQuery& m) { return "newest vote of " + to_hex(m.key.bytes.view().first(4)) + "?"; }
    std::string operator()(const VoteAnswer& m) {
        return "newest vote of " + to_hex(m.key.bytes.view().first(4)) + " heard in epoch " + std::to_string(m.epoch) +
               ": " +
               (m.newest
                    ? std::string(name_of(m.newest->vote.type)) + " " + place(m.newest->vote.epoch, m.newest->vote.view)
                    : std::string("none"));
    }
};

}  // namespace

Bytes encode(const Message& message) {
    rlp::Writer writer;
    writer.begin_list();
    std::visit(Encoder{writer}, message);
    writer.end_list();
    Bytes out = {static_cast<std::uint8_t>(message.index() + 1)};
    append(out, std::move(writer).finish());
    return out;
}

Expected<Message> decode_message(BytesView bytes) {
    if (bytes.empty()) return fail("message.empty");
    if (bytes.size() > kMaxMessageBytes) return fail("message.too_large", std::to_string(bytes.size()));
    if (bytes[0] < kPropose || bytes[0] > kVoteAnswer) return fail("message.unknown_kind", std::to_string(bytes[0]));
    QUERN_TRY(auto reader, rlp::decode_list(bytes.subspan(1)));
    QUERN_TRY(auto message, read_body(bytes[0], reader));
    QUERN_CHECK(reader.expect_end());
    return message;
}

std::string describe(const Message& message) { return std::visit(Describer{}, message); }

std::string describe(const Certificate& certificate) {
    return std::string(name_of(certificate.type)) + " " + place(certificate.epoch, certificate.view) +
           (certificate.type == VoteType::nullify ? std::string()
                                                  : std::string(" ").append(short_hash(certificate.hash)));
}

std::string_view name_of(VoteType type) {
    switch (type) {
        case VoteType::propose:
            return "PROPOSE";
        case VoteType::notarize:
            return "NOTARIZE";
        case VoteType::nullify:
            return "NULLIFY";
        case VoteType::finalize:
            return "FINALIZE";
    }
    return "?";
}

}  // namespace quern::chain::consensus::sdbft
