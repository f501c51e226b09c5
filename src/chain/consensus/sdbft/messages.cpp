#include "chain/consensus/sdbft/messages.h"

namespace quern::chain::consensus::sdbft {
namespace {

// Decodes the body of the message at `index` of the variant.
template <std::size_t at = 0>
Expected<Message> decode_body(std::size_t index, BytesView body) {
    if constexpr (at == std::variant_size_v<Message>) {
        return fail("message.unknown_kind", std::to_string(index + 1));
    } else {
        if (index != at) return decode_body<at + 1>(index, body);
        using Body = std::variant_alternative_t<at, Message>;
        QUERN_TRY(auto message, record::decode_record<Body>(body));
        return Message(std::move(message));
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

Bytes CertificateCodec::encode(const Certificate& certificate) { return consensus::encode(certificate); }

Expected<Certificate> CertificateCodec::decode(BytesView bytes) { return decode_certificate(bytes); }

Bytes OptionalCertificateCodec::encode(const std::optional<Certificate>& certificate) {
    return certificate ? consensus::encode(*certificate) : Bytes{};
}

Expected<std::optional<Certificate>> OptionalCertificateCodec::decode(BytesView bytes) {
    if (bytes.empty()) return std::optional<Certificate>();
    QUERN_TRY(auto certificate, decode_certificate(bytes));
    return std::optional<Certificate>(std::move(certificate));
}

Status VoteMessage::check() const {
    if (vote.type < VoteType::notarize || vote.type > VoteType::finalize)
        return fail("message.bad_vote", "type " + std::to_string(static_cast<unsigned>(vote.type)));
    if (member >= kMaxCommittee) return fail("message.bad_vote", "member");
    if ((vote.type == VoteType::nullify) != vote.hash.is_zero()) return fail("message.bad_vote", "hash");
    return {};
}

Status VoteAnswer::Signed::check() const {
    if (vote.type < VoteType::propose || vote.type > VoteType::finalize)
        return fail("message.bad_vote", "type " + std::to_string(static_cast<unsigned>(vote.type)));
    return {};
}

Status RangeAnswer::check() const {
    for (const auto& block : blocks)
        if (block.size() > types::kMaxBlockBytes) return fail("message.too_large", "block");
    return {};
}

Bytes encode(const Message& message) {
    Bytes out = {static_cast<std::uint8_t>(message.index() + 1)};
    append(out, std::visit([](const auto& body) { return record::encode_record(body); }, message));
    return out;
}

Expected<Message> decode_message(BytesView bytes) {
    if (bytes.empty()) return fail("message.empty");
    if (bytes.size() > kMaxMessageBytes) return fail("message.too_large", std::to_string(bytes.size()));
    if (bytes[0] == 0) return fail("message.unknown_kind", "0");
    return decode_body(bytes[0] - std::size_t{1}, bytes.subspan(1));
}

std::optional<ByteRange> transactions_in(BytesView message) {
    constexpr std::uint8_t kPropose = 1;  // as encode() numbers the alternatives
    static_assert(std::is_same_v<std::variant_alternative_t<kPropose - 1, Message>, ProposeMessage>);
    if (message.empty() || message[0] != kPropose) return std::nullopt;
    auto fields = rlp::decode_list(message.subspan(1));
    if (!fields || !fields->next() || !fields->next()) return std::nullopt;  // epoch, view
    const auto block = fields->bytes();
    if (!block) return std::nullopt;
    auto parts = rlp::decode_list(*block);
    if (!parts || !parts->next()) return std::nullopt;  // header
    const auto transactions = parts->next();
    if (!transactions || !transactions->is_list) return std::nullopt;
    const auto begin = static_cast<std::size_t>(transactions->payload.data() - message.data());
    return ByteRange{begin, begin + transactions->payload.size()};
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
