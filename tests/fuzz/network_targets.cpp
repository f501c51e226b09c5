// What peers and validators send: p2p bodies, certificates of transport keys, peer records, SDBFT messages, evidence,
// the validators' journal, VRF proofs.
#include "chain/consensus/sdbft/evidence.h"
#include "chain/consensus/sdbft/journal.h"
#include "crypto/vrf.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"
#include "p2p/messages/messages.h"
#include "p2p/messages/peer_record.h"
#include "p2p/transport/net_cert.h"

namespace quern::fuzz {
namespace {

namespace consensus = chain::consensus;
namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;
namespace transport = p2p::transport;
using messages::Type;

// --- p2p messages ----------------------------------------------------------------------------------------------------
template <class T>
bool same_bytes(const Expected<T>& decoded, BytesView body) {
    if (!decoded) return false;
    QUERN_PROPERTY(equal(messages::encode(*decoded), body));
    return true;
}

// Input: type, then the body.
bool run_p2p_message(BytesView input) {
    if (input.empty()) return false;
    const messages::Rule* rule = messages::rule_of(input[0]);
    const BytesView body = input.subspan(1);
    if (rule == nullptr || body.size() > rule->max_bytes) return false;
    switch (rule->type) {
        case Type::hello:
            return same_bytes(messages::decode_hello(body), body);
        case Type::status:
            return same_bytes(messages::decode_status(body), body);
        case Type::get_peers:
            return same_bytes(messages::decode_get_peers(body), body);
        case Type::peers:
            return same_bytes(messages::decode_peers(body), body);
        case Type::consensus:
            return false;  // sdbft_message
        case Type::proposal:
            return same_bytes(messages::decode_compact_proposal(body), body);
        case Type::get_proposal_transactions:
            return same_bytes(messages::decode_get_proposal_transactions(body), body);
        case Type::proposal_transactions:
            return same_bytes(messages::decode_proposal_transactions(body), body);
        case Type::get_proposal:
            return same_bytes(messages::decode_get_proposal(body), body);
        case Type::tx_announce:
        case Type::get_transactions:
            return same_bytes(messages::decode_short_ids(body), body);
        case Type::transactions:
            return same_bytes(messages::decode_transactions(body), body);
        case Type::compact_block: {
            const auto decoded = messages::decode_compact_block(body);
            const auto header = messages::decode_compact_header(body);  // what is looked at first
            QUERN_PROPERTY(!decoded || (header && *header == decoded->header));
            if (decoded)
                for (const auto& prefilled : decoded->prefilled)
                    QUERN_PROPERTY(prefilled.index < decoded->transaction_count());
            return same_bytes(decoded, body);
        }
        case Type::get_block_transactions:
            return same_bytes(messages::decode_get_block_transactions(body), body);
        case Type::block_transactions:
            return same_bytes(messages::decode_block_transactions(body), body);
        case Type::get_block:
            return same_bytes(messages::decode_get_block(body), body);
        case Type::block:
            return same_bytes(messages::decode_block_answer(body), body);
        case Type::get_certificate:
            return same_bytes(messages::decode_get_certificate(body), body);
        case Type::certificate:
            return same_bytes(messages::decode_certificate_answer(body), body);
        case Type::get_range:
            return same_bytes(messages::decode_get_range(body), body);
        case Type::range:
            return same_bytes(messages::decode_range(body), body);
        case Type::find_content:
            return same_bytes(messages::decode_find_content(body), body);
        case Type::content_info:
            return same_bytes(messages::decode_content_info(body), body);
        case Type::get_leaf_hashes:
            return same_bytes(messages::decode_get_leaves(body, messages::kMaxLeafHashes), body);
        case Type::get_leaves:
            return same_bytes(messages::decode_get_leaves(body, messages::kLeavesPerChunk), body);
        case Type::leaf_hashes:
        case Type::leaves:
            return same_bytes(messages::decode_leaves(body), body);
        case Type::get_shards:
            return same_bytes(messages::decode_get_shards(body), body);
        case Type::shards:
            return same_bytes(messages::decode_shards(body), body);
        case Type::refusal:
            return same_bytes(messages::decode_refusal(body), body);
    }
    return false;
}

messages::PeerRecord sample_peer_record() {
    messages::PeerRecord record;
    record.chain_id = 7878;
    record.address = crypto::address20(sample_key(1));
    record.sequence = 3;
    record.expiry = 1'800'000'000;
    record.roles = 3;
    record.endpoints = {{"192.0.2.7", 30303}, {"node.example", 9}};
    messages::sign(record, sample_key(1));
    return record;
}

std::vector<Seed> seeds_p2p_message() {
    std::vector<Seed> seeds;
    const auto add = [&](Type type, Bytes body) {
        Bytes bytes;
        bytes.push_back(static_cast<std::uint8_t>(type));
        append(bytes, body);
        seeds.push_back({std::string(messages::rule_of(type).name), std::move(bytes)});
    };
    const chain::types::Block block = sample_block();
    const Hash32 hash = hash_of(block.header);
    messages::Status status{70, hash, 1, 71, 0};
    add(Type::hello, messages::encode(messages::Hello{1, "quern/0.1.0", 30303, status}));
    add(Type::status, messages::encode(status));
    add(Type::get_peers, messages::encode(messages::GetPeers{16}));
    add(Type::peers, messages::encode(messages::Peers{{messages::encode(sample_peer_record())}}));
    messages::CompactProposal proposal{hash, Bytes(20, 1), Bytes(10, 2), Bytes(2 * messages::kProposalIdBytes, 3), {}};
    proposal.prefilled = {{1, block.transactions[0]}};
    add(Type::proposal, messages::encode(proposal));
    add(Type::get_proposal_transactions, messages::encode(messages::GetProposalTransactions{hash, {0, 2}}));
    add(Type::proposal_transactions, messages::encode(messages::ProposalTransactions{hash, {block.transactions[0]}}));
    add(Type::get_proposal, messages::encode(messages::GetProposal{hash}));
    const messages::ShortIds ids{{messages::short_id(hash), messages::short_id(Hash32{{9}})}};
    add(Type::tx_announce, messages::encode(ids));
    add(Type::get_transactions, messages::encode(ids));
    add(Type::transactions, messages::encode(messages::Transactions{{block.transactions[0], block.transactions[1]}}));
    messages::CompactBlock compact;
    compact.header = block.header;
    compact.ids = ids.ids;
    compact.prefilled = {{1, block.transactions[0]}};
    compact.withdrawals = block.withdrawals;
    compact.parent_certificate = block.parent_certificate;
    add(Type::compact_block, messages::encode(compact));
    add(Type::get_block_transactions, messages::encode(messages::GetBlockTransactions{hash, {0, 2}}));
    add(Type::block_transactions, messages::encode(messages::BlockTransactions{hash, {block.transactions[0]}}));
    add(Type::get_block, messages::encode(messages::GetBlock{hash}));
    const messages::BlockAnswer answer{encode(block), block.parent_certificate};
    add(Type::block, messages::encode(answer));
    add(Type::get_certificate, messages::encode(messages::GetCertificate{4, 1, 2}));
    add(Type::certificate, messages::encode(messages::CertificateAnswer{{block.parent_certificate}}));
    add(Type::get_range, messages::encode(messages::GetRange{1, 2, 1U << 20}));
    add(Type::range, messages::encode(messages::Range{{answer}}));
    add(Type::find_content, messages::encode(messages::FindContent{{hash}}));
    add(Type::content_info, messages::encode(messages::ContentInfo{{{hash, 3U << 20, {0x05}}, {Hash32{{1}}, 5, {}}}}));
    add(Type::get_leaf_hashes, messages::encode(messages::GetLeaves{hash, 0, 100}));
    add(Type::leaf_hashes, messages::encode(messages::Leaves{hash, 0, Bytes(64, 1)}));
    add(Type::get_leaves, messages::encode(messages::GetLeaves{hash, 64, 10}));
    add(Type::leaves, messages::encode(messages::Leaves{hash, 64, Bytes(100, 2)}));
    add(Type::get_shards, messages::encode(messages::GetShards{hash}));
    add(Type::shards, messages::encode(messages::Shards{Bytes(72, 3)}));
    add(Type::refusal, messages::encode(messages::Refusal{messages::RefusalCode::busy, "later"}));
    return seeds;
}

bool run_peer_record(BytesView input) {
    const auto record = messages::decode_peer_record(input);
    if (!record) return false;
    QUERN_PROPERTY(equal(messages::encode(*record), input));
    for (const auto& endpoint : record->endpoints) QUERN_PROPERTY(messages::is_host(endpoint.host));
    return true;
}
std::vector<Seed> seeds_peer_record() { return {{"record", messages::encode(sample_peer_record())}}; }

bool run_net_cert(BytesView input) {
    const auto cert = transport::decode_net_cert(input);
    if (!cert) return false;
    QUERN_PROPERTY(equal(transport::encode(*cert), input));
    const auto signer = transport::signer_of(*cert);
    transport::NetCertCache cache;
    const auto first = cache.verify(input, cert->chain_id, cert->static_key, 0);
    const auto second = cache.verify(input, cert->chain_id, cert->static_key, 0);
    QUERN_PROPERTY(first.has_value() == second.has_value());
    if (first) QUERN_PROPERTY(signer && first->address == *signer && second->address == *signer);
    return true;
}
std::vector<Seed> seeds_net_cert() {
    transport::NetCert cert;
    cert.chain_id = 7878;
    cert.static_key = Hash32{{4, 5}};
    cert.roles = transport::kRoleValidator;
    cert.expiry = 1'800'000'000;
    transport::sign(cert, sample_key(2));
    return {{"cert", transport::encode(cert)}};
}

// --- SDBFT -----------------------------------------------------------------------------------------------------------
bool run_sdbft_message(BytesView input) {
    (void)sdbft::transactions_in(input);
    const auto message = sdbft::decode_message(input);
    if (!message) return false;
    QUERN_PROPERTY(equal(sdbft::encode(*message), input));
    QUERN_PROPERTY(!sdbft::describe(*message).empty());
    if (const auto at = sdbft::transactions_in(input)) QUERN_PROPERTY(at->begin <= at->end && at->end <= input.size());
    return true;
}

std::vector<Seed> seeds_sdbft_message() {
    const chain::types::Block block = sample_block();
    const auto certificate = consensus::decode_certificate(block.parent_certificate);
    QUERN_ACCEPTED(certificate);
    consensus::Certificate nullification = *certificate;
    nullification.type = consensus::VoteType::nullify;
    nullification.hash = Hash32{};
    sdbft::Signature signature;
    signature.data.fill(7);
    sdbft::ProposeMessage propose{1, 78, encode(block), std::nullopt, {nullification}, signature};
    const sdbft::VoteMessage vote{{consensus::VoteType::notarize, 1, 78, hash_of(block.header)}, 2, signature};
    std::vector<Seed> seeds;
    const auto add = [&](const char* name, const sdbft::Message& message) {
        seeds.push_back({name, sdbft::encode(message)});
    };
    add("propose", propose);
    propose.justification = *certificate;
    add("propose_again", propose);
    add("vote", vote);
    add("certificate", sdbft::CertificateMessage{*certificate});
    add("certificate_query", sdbft::CertificateQuery{1, 2, 5});
    add("block_query", sdbft::BlockQuery{hash_of(block.header)});
    add("block_answer", sdbft::BlockAnswer{encode(block)});
    add("range_query", sdbft::RangeQuery{7});
    crypto::PublicKey key;
    key.bytes.data.fill(5);
    add("vote_query", sdbft::VoteQuery{key});
    add("vote_answer", sdbft::VoteAnswer{1, key, sdbft::VoteAnswer::Signed{vote.vote, signature}});
    add("vote_answer_none", sdbft::VoteAnswer{1, key, std::nullopt});
    add("range_answer", sdbft::RangeAnswer{9, {encode(block)}, *certificate});
    return seeds;
}

bool run_evidence(BytesView input) {
    const auto evidence = sdbft::decode_evidence(input);
    if (!evidence) return false;
    QUERN_PROPERTY(equal(sdbft::encode(*evidence), input));
    QUERN_PROPERTY(sdbft::is_slashable_pair(evidence->first, evidence->second) ==
                   sdbft::is_slashable_pair(evidence->second, evidence->first));
    return true;
}
std::vector<Seed> seeds_evidence() {
    const consensus::Vote first{consensus::VoteType::notarize, 1, 5, Hash32{{1}}};
    const consensus::Vote second{consensus::VoteType::notarize, 1, 5, Hash32{{2}}};
    const auto key = sample_key(1);
    return {{"two_notarize",
             sdbft::encode(sdbft::Evidence{crypto::derive_public(key), first, consensus::sign_vote({}, first, key),
                                           second, consensus::sign_vote({}, second, key)})}};
}

bool run_sdbft_journal(BytesView input) {
    (void)sdbft::decode_own_vote(input);
    const auto recovered = sdbft::recover(input);
    if (!recovered) return false;
    QUERN_PROPERTY(recovered->valid_bytes <= input.size());
    Bytes again;
    std::uint64_t sequence = recovered->next_sequence - recovered->records.size();
    for (const auto& record : recovered->records) append(again, sdbft::encode_frame(sequence++, record));
    QUERN_PROPERTY(equal(again, input.first(recovered->valid_bytes)));
    return !recovered->records.empty();
}
std::vector<Seed> seeds_sdbft_journal() {
    sdbft::OwnVote vote;
    vote.vote = {consensus::VoteType::finalize, 1, 5, Hash32{{1}}};
    vote.signature.data.fill(3);
    Bytes log;
    append(log, sdbft::encode_frame(0, sdbft::record_of(vote)));
    append(log, sdbft::encode_frame(1, {sdbft::RecordKind::certificate, sample_block().parent_certificate}));
    Bytes torn = log;
    torn.resize(torn.size() - 5);
    return {{"two_records", log}, {"torn", torn}};
}

// Input: a proof, then the message. Nobody can prove for the sample key, so what verifies is the real proof.
bool run_vrf(BytesView input) {
    static const crypto::PublicKey key = crypto::derive_public(sample_key(1));
    if (input.size() < crypto::VrfProof::kSize) return false;
    const BytesView proof = input.first(crypto::VrfProof::kSize);
    const BytesView message = input.subspan(crypto::VrfProof::kSize);
    const auto output = crypto::vrf_output(proof);
    const auto verified = crypto::vrf_verify(key, message, proof);
    if (!verified) return false;
    QUERN_PROPERTY(output && *output == *verified);
    const auto real = crypto::vrf_prove(sample_key(1), message);
    QUERN_PROPERTY(real.output == *verified && equal(real.proof, proof));
    return true;
}
std::vector<Seed> seeds_vrf() {
    std::vector<Seed> seeds;
    for (const char* text : {"", "beacon"}) {
        Bytes bytes = to_bytes(crypto::vrf_prove(sample_key(1), as_bytes(text)).proof.view());
        append(bytes, as_bytes(text));
        seeds.push_back({"proof_" + std::to_string(seeds.size()), std::move(bytes)});
    }
    return seeds;
}

}  // namespace

std::span<const Target> network_targets() {
    static constexpr Target kTargets[] = {
        {"p2p_message", run_p2p_message, seeds_p2p_message},
        {"peer_record", run_peer_record, seeds_peer_record, 1'400},
        {"net_cert", run_net_cert, seeds_net_cert, 200},
        {"sdbft_message", run_sdbft_message, seeds_sdbft_message},
        {"evidence", run_evidence, seeds_evidence, 1'000},
        {"sdbft_journal", run_sdbft_journal, seeds_sdbft_journal, 2'000},
        {"vrf", run_vrf, seeds_vrf, 300},
    };
    return kTargets;
}

}  // namespace quern::fuzz
