// What it says as a validator and as a peer; its proposals are in forger_proposals.cpp.
#include "sim/forger.h"

namespace quern::sim {

using chain::consensus::Vote;
using chain::consensus::VoteType;

namespace {
constexpr std::size_t kMaxRemembered = 200;
constexpr std::uint64_t kChatterOneIn = 12;
}  // namespace

const std::string_view* ForgeryBook::find(std::uint64_t epoch, std::uint64_t view, const Hash32& hash) const {
    if (const auto block = blocks.find(hash); block != blocks.end()) return &block->second;
    const auto proposal = proposals.find({epoch, view, hash});
    return proposal == proposals.end() ? nullptr : &proposal->second;
}

sdbft::Signature Forger::sign(const Vote& vote) const {
    return parts_.keys.signers[parts_.validator]->sign(chain::consensus::vote_digest(parts_.identity, vote));
}

sdbft::Signature Forger::noise() {
    sdbft::Signature signature;
    parts_.rng.fill(signature.data);
    return signature;
}

std::optional<std::size_t> Forger::member(const Committee& committee) const {
    const std::size_t index = committee.index_of(parts_.keys.signers[parts_.validator]->public_key());
    return index < committee.members().size() ? std::optional(index) : std::nullopt;
}

Certificate Forger::certificate(const Vote& vote, const Committee& committee, bool by_all) {
    std::vector<std::pair<std::size_t, sdbft::Signature>> signatures;
    for (std::size_t i = 0; i < committee.members().size(); ++i) {
        sdbft::Signature signature = noise();
        if (by_all)
            for (const auto& signer : parts_.keys.signers)
                if (signer->public_key() == committee.members()[i].key)
                    signature = signer->sign(chain::consensus::vote_digest(parts_.identity, vote));
        signatures.emplace_back(i, signature);
    }
    return chain::consensus::make_certificate(vote, committee, signatures);
}

void Forger::remember(const sdbft::Message& message) {
    const auto keep_block = [this](const Bytes& bytes) {
        const auto info = sdbft::read_block(bytes);
        if (!info) return;
        if (blocks_.size() >= kMaxRemembered) blocks_.erase(blocks_.begin());
        blocks_.emplace(info->hash, bytes);
    };
    const auto keep = [this](const Certificate& certificate) {
        if (certificates_.size() >= kMaxRemembered) certificates_.erase(certificates_.begin());
        certificates_.emplace(std::tuple(certificate.epoch, certificate.view, certificate.type), certificate);
    };
    if (const auto* m = std::get_if<sdbft::ProposeMessage>(&message)) keep_block(m->block);
    if (const auto* m = std::get_if<sdbft::BlockAnswer>(&message)) keep_block(m->block);
    if (const auto* m = std::get_if<sdbft::CertificateMessage>(&message)) keep(m->certificate);
}

std::optional<sdbft::BlockInfo> Forger::known(const Hash32& hash) const {
    const auto found = blocks_.find(hash);
    if (found == blocks_.end()) return std::nullopt;
    auto info = sdbft::read_block(found->second);
    return info ? std::optional(std::move(*info)) : std::nullopt;
}

std::vector<Forger::Out> Forger::hear(const Bytes& bytes, SimChain& chain) {
    std::vector<Out> out;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return out;
    remember(*message);
    if (parts_.rng.below(kChatterOneIn) != 0) return out;
    if (auto said = chatter(*message, chain)) out.push_back({0, std::move(*said), parts_.rng.below(3) != 0});
    return out;
}

std::optional<Bytes> Forger::chatter(const sdbft::Message& heard, SimChain& chain) {
    auto& rng = parts_.rng;
    Vote vote;
    if (const auto* m = std::get_if<sdbft::VoteMessage>(&heard)) vote = m->vote;
    if (const auto* m = std::get_if<sdbft::CertificateMessage>(&heard)) vote = m->certificate.vote();
    if (const auto* m = std::get_if<sdbft::ProposeMessage>(&heard)) {
        if (rng.below(2) == 0) return proposal_in_anothers_name(*m);
        vote = {VoteType::notarize, m->epoch, m->view, {}};
        if (const auto info = sdbft::read_block(m->block)) vote.hash = info->hash;
    }
    if (vote.view == 0) return std::nullopt;
    const auto committee = chain.committee_of(vote.epoch);
    if (!committee) return std::nullopt;
    if (vote.type == VoteType::propose) vote.type = VoteType::notarize;
    switch (rng.below(6)) {
        case 0:
            return absurd_query(vote.epoch);
        case 1:
            return false_range(*committee, chain);
        case 2:
        case 3:
            return false_certificate(vote, *committee);
        default:
            return false_vote(vote, *committee);
    }
}

std::optional<Bytes> Forger::false_vote(Vote vote, const Committee& committee) {
    auto& rng = parts_.rng;
    static constexpr VoteType kTypes[] = {VoteType::notarize, VoteType::nullify, VoteType::finalize};
    sdbft::VoteMessage out;
    const auto self = member(committee);
    switch (rng.below(4)) {
        case 0:
            // In another's name, about this view or the next ones.
            ++parts_.book.written["vote in another's name"];
            vote.type = kTypes[rng.below(3)];
            vote.view += rng.below(2);
            out = {vote, rng.below(committee.members().size()), noise()};
            if (self == out.member) return std::nullopt;
            break;
        case 1:
            ++parts_.book.written["vote of no member"];
            out = {vote, rng.below(2) == 0 ? committee.members().size() : std::uint64_t{1} << 40, sign(vote)};
            break;
        case 2:
            if (!self) return std::nullopt;
            ++parts_.book.written["vote about a view far ahead"];
            vote.view += rng.below(2) == 0 ? 1'000'000 + rng.below(1000) : 1 + rng.below(70);
            vote.type = VoteType::nullify;
            out = {vote, *self, {}};
            break;
        default:
            if (!self) return std::nullopt;
            ++parts_.book.written["vote of another epoch"];
            vote.epoch += rng.below(3) == 0 ? 1000 : 1;
            out = {vote, *self, {}};
            break;
    }
    if (out.vote.type == VoteType::nullify) out.vote.hash = {};
    if (out.vote.type != VoteType::nullify && out.vote.hash.is_zero()) out.vote.hash.data[0] = 1;
    if (out.signature == sdbft::Signature{}) out.signature = sign(out.vote);
    return sdbft::encode(sdbft::Message(out));
}

std::optional<Bytes> Forger::false_certificate(Vote vote, const Committee& committee) {
    auto& rng = parts_.rng;
    static constexpr VoteType kTypes[] = {VoteType::notarize, VoteType::nullify, VoteType::finalize};
    vote.type = kTypes[rng.below(3)];
    vote.view += rng.below(3);
    vote.hash = {};
    if (vote.type != VoteType::nullify) rng.fill(vote.hash.data);
    const auto self = member(committee);
    Certificate forged = certificate(vote, committee, false);
    switch (rng.below(6)) {
        case 0: {
            if (!self) return std::nullopt;
            ++parts_.book.written["certificate below quorum"];
            const std::vector<std::pair<std::size_t, sdbft::Signature>> own = {{*self, sign(vote)}};
            forged = chain::consensus::make_certificate(vote, committee, own);
            break;
        }
        case 1:
            ++parts_.book.written["certificate with a long bitmap"];
            forged.bitmap.push_back(0);
            break;
        case 2:
            ++parts_.book.written["certificate without a signature"];
            forged.signatures.pop_back();
            break;
        case 3:
            ++parts_.book.written["certificate with one signature for all"];
            for (auto& signature : forged.signatures) signature = sign(vote);
            break;
        case 4: {
            // A true one, about another view.
            const auto found = certificates_.lower_bound({vote.epoch, vote.view > 3 ? vote.view - 3 : 0, VoteType{}});
            if (found == certificates_.end()) return std::nullopt;
            ++parts_.book.written["certificate of another view"];
            forged = found->second;
            forged.view += 1 + rng.below(3);
            break;
        }
        default:
            ++parts_.book.written["certificate of noise"];
            break;
    }
    return sdbft::encode(sdbft::Message(sdbft::CertificateMessage{forged}));
}

std::optional<Bytes> Forger::proposal_in_anothers_name(const sdbft::ProposeMessage& heard) {
    auto block = types::decode_block(heard.block);
    if (!block) return std::nullopt;
    ++parts_.book.written["proposal in another's name"];
    block->header.beneficiary.data[2] = static_cast<std::uint8_t>(1 + parts_.rng.below(200));
    sdbft::ProposeMessage forged = heard;
    forged.block = types::encode(*block);
    const Hash32 hash = types::hash_of(block->header);
    parts_.book.blocks.emplace(hash, "proposed in another's name");
    if (parts_.rng.below(2) == 0) forged.signature = sign({VoteType::propose, heard.epoch, heard.view, hash});
    return sdbft::encode(sdbft::Message(std::move(forged)));
}

std::optional<Bytes> Forger::false_range(const Committee& committee, SimChain& chain) {
    // A block that follows the tip, which nobody finalized, under a finalization of noise.
    for (const auto& [hash, bytes] : blocks_) {
        const auto info = sdbft::read_block(bytes);
        if (!info || info->parent != chain.tip().hash || info->number != chain.height() + 1) continue;
        ++parts_.book.written["range under a false finalization"];
        const Vote vote{VoteType::finalize, info->epoch, info->view, hash};
        const sdbft::RangeAnswer range{
            info->number + parts_.rng.below(1000), {bytes}, certificate(vote, committee, false)};
        return sdbft::encode(sdbft::Message(range));
    }
    return std::nullopt;
}

Bytes Forger::absurd_query(std::uint64_t epoch) {
    auto& rng = parts_.rng;
    ++parts_.book.written["absurd query"];
    sdbft::Message query;
    switch (rng.below(5)) {
        case 0:
            query = sdbft::CertificateQuery{epoch, 1, ~std::uint64_t{0}};
            break;
        case 1:
            query = sdbft::CertificateQuery{epoch, 5, 4};
            break;
        case 2:
            query = sdbft::RangeQuery{~std::uint64_t{0} - rng.below(2)};
            break;
        case 3: {
            sdbft::BlockQuery block;
            rng.fill(block.hash.data);
            query = block;
            break;
        }
        default: {
            Bytes noise(1 + rng.below(300));
            rng.fill(noise);
            noise[0] = static_cast<std::uint8_t>(rng.below(12));
            return noise;
        }
    }
    return sdbft::encode(query);
}

Bytes Forger::changed_body(BytesView bytes) {
    auto block = types::decode_block(bytes);
    if (!block) return to_bytes(bytes);
    if (parts_.rng.below(2) == 0)
        block->transactions.push_back(Bytes(11, 7));
    else
        block->parent_certificate.push_back(7);
    return types::encode(*block);
}

std::optional<Bytes> Forger::answer(const Bytes& honest) {
    auto& rng = parts_.rng;
    if (honest.empty() || rng.below(2) == 0) return std::nullopt;
    auto message = sdbft::decode_message(honest);
    if (!message) return std::nullopt;
    if (auto* block = std::get_if<sdbft::BlockAnswer>(&*message)) {
        ++parts_.book.written["false block answer"];
        if (rng.below(3) == 0 && !blocks_.empty())
            block->block = blocks_.begin()->second;
        else if (rng.below(3) == 0)
            block->block.resize(block->block.size() / 2);
        else
            block->block = changed_body(block->block);
        return sdbft::encode(*message);
    }
    if (auto* range = std::get_if<sdbft::RangeAnswer>(&*message)) {
        ++parts_.book.written["false range answer"];
        auto& blocks = range->blocks;
        switch (rng.below(6)) {
            case 0:
                blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(rng.below(blocks.size())));
                break;
            case 1:
                std::swap(blocks.front(), blocks[rng.below(blocks.size())]);
                break;
            case 2:
                blocks.back() = changed_body(blocks.back());
                break;
            case 3:
                for (auto& signature : range->certificate.signatures) signature = noise();
                break;
            case 4:
                range->certificate.type = VoteType::notarize;
                break;
            default:
                range->tip_height = ~std::uint64_t{0};
                break;
        }
        return sdbft::encode(*message);
    }
    if (auto* certificate_message = std::get_if<sdbft::CertificateMessage>(&*message)) {
        ++parts_.book.written["false certificate answer"];
        certificate_message->certificate.view += 1;
        return sdbft::encode(*message);
    }
    if (auto* heard = std::get_if<sdbft::VoteAnswer>(&*message)) {
        ++parts_.book.written["false vote answer"];
        if (heard->newest && rng.below(2) == 0)
            heard->newest.reset();
        else
            heard->newest = sdbft::VoteAnswer::Signed{{VoteType::nullify, heard->epoch, 1 + rng.below(9), {}}, noise()};
        return sdbft::encode(*message);
    }
    return std::nullopt;
}

}  // namespace quern::sim
