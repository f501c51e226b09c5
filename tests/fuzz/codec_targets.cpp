// RLP and Ethereum's formats: whatever is taken must encode to the same bytes.
#include "base/rlp.h"
#include "chain/state/path_node.h"
#include "chain/state/trie.h"
#include "chain/types/transaction_rules.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"

namespace quern::fuzz {
namespace {

using namespace chain::types;

// --- RLP -------------------------------------------------------------------------------------------------------------
void copy_item(rlp::Writer& writer, const rlp::Item& item, int depth) {
    if (!item.is_list) {
        writer.bytes(item.payload);
        // The typed readers agree with the item.
        if (const auto number = rlp::Reader(item.whole).u256()) {
            rlp::Writer again;
            again.integer(*number);
            QUERN_PROPERTY(equal(std::move(again).finish(), item.whole));
            const auto small = rlp::Reader(item.whole).u64();
            QUERN_PROPERTY(small.has_value() == number->fits_u64());
        }
        return;
    }
    if (depth == 64) {  // the copy recurses; the decoder does not
        writer.raw(item.whole);
        return;
    }
    writer.begin_list();
    rlp::Reader items(item.payload);
    while (!items.at_end()) {
        const auto next = items.next();
        QUERN_ACCEPTED(next);
        copy_item(writer, *next, depth + 1);
    }
    writer.end_list();
}

bool run_rlp(BytesView input) {
    const bool valid = rlp::validate(input).has_value();
    const auto item = rlp::decode_single(input);
    if (!valid) return false;
    QUERN_ACCEPTED(item);
    rlp::Writer writer;
    copy_item(writer, *item, 0);
    QUERN_PROPERTY(equal(std::move(writer).finish(), input));
    return true;
}

std::vector<Seed> seeds_rlp() {
    std::vector<Seed> seeds;
    const auto add = [&](const char* name, Bytes bytes) { seeds.push_back({name, std::move(bytes)}); };
    add("empty_string", {0x80});
    add("empty_list", {0xc0});
    add("byte", {0x7f});
    rlp::Writer long_string;
    long_string.bytes(Bytes(300, 'a'));
    add("long_string", std::move(long_string).finish());
    rlp::Writer nested;
    nested.begin_list().integer(1024).begin_list().bytes(as_bytes("dog")).begin_list().end_list().end_list();
    nested.integer(Uint256(1, 2, 3, 4)).bytes(Bytes(60, 1)).boolean(true).end_list();
    add("nested", std::move(nested).finish());
    rlp::Writer deep;
    for (int i = 0; i < 100; ++i) deep.begin_list();
    for (int i = 0; i < 100; ++i) deep.end_list();
    add("deep", std::move(deep).finish());
    return seeds;
}

// --- Transactions ----------------------------------------------------------------------------------------------------
bool run_transaction(BytesView input) {
    const auto tx = decode_transaction(input);
    if (!tx) return false;
    QUERN_PROPERTY(equal(encode(*tx), input));
    const Hash32 digest = signing_hash(*tx);
    QUERN_PROPERTY(digest == signing_hash(*tx));
    QUERN_PROPERTY(intrinsic_gas(*tx) >= kTxBaseGas && floor_gas(*tx) >= kTxBaseGas);
    (void)check_form(*tx, 7878);
    (void)check_gas_limit(*tx);
    const auto sender = recover_sender(*tx);
    const auto recovered = recover(input);
    QUERN_PROPERTY(sender.has_value() == recovered.has_value());
    if (recovered) {
        QUERN_PROPERTY(recovered->sender == *sender && recovered->tx == *tx);
        QUERN_PROPERTY(recovered->hash == transaction_hash(input));
    }
    return true;
}

std::vector<Seed> seeds_transaction() {
    std::vector<Seed> seeds;
    for (const auto& [name, tx] : sample_transactions()) seeds.push_back({name, encode(tx)});
    return seeds;
}

// --- Blocks and receipts ---------------------------------------------------------------------------------------------
bool run_block(BytesView input) {
    const auto block = decode_block(input);
    if (!block) return false;
    QUERN_PROPERTY(equal(encode(*block), input));
    (void)hash_of(block->header);
    for (const Bytes& transaction : block->transactions) (void)decode_transaction(transaction);
    return true;
}
std::vector<Seed> seeds_block() {
    Block empty = sample_block();
    empty.transactions.clear();
    empty.withdrawals.clear();
    empty.parent_certificate.clear();
    return {{"full", encode(sample_block())}, {"empty", encode(empty)}};
}

bool run_header(BytesView input) {
    const auto header = decode_header(input);
    if (!header) return false;
    QUERN_PROPERTY(equal(encode(*header), input));
    const auto fields = decode_consensus_fields(encode(header->consensus));
    QUERN_ACCEPTED(fields);
    QUERN_PROPERTY(*fields == header->consensus);
    return true;
}
std::vector<Seed> seeds_header() {
    BlockHeader with_proof = sample_block().header;
    with_proof.consensus.vrf_proof = Bytes(80, 9);
    return {{"header", encode(sample_block().header)}, {"with_proof", encode(with_proof)}};
}

bool run_consensus_fields(BytesView input) {
    const auto fields = decode_consensus_fields(input);
    if (!fields) return false;
    QUERN_PROPERTY(equal(encode(*fields), input));
    return true;
}
std::vector<Seed> seeds_consensus_fields() { return {{"fields", encode(sample_block().header.consensus)}}; }

bool run_receipt(BytesView input) {
    const auto receipt = decode_stored_receipt(input);
    if (!receipt) return false;
    QUERN_PROPERTY(equal(encode_stored(*receipt), input));
    (void)encode_consensus(*receipt, bloom_of(receipt->logs));
    for (const Log& log : receipt->logs) QUERN_PROPERTY(bloom_may_contain(bloom_of(receipt->logs), log.address));
    return true;
}
std::vector<Seed> seeds_receipt() {
    return {{"success", encode_stored(sample_receipt(true))}, {"failure", encode_stored(sample_receipt(false))}};
}

// --- Tries -----------------------------------------------------------------------------------------------------------
// Input: rlp([root, key, [node...]]). A proof that is taken for the sample trie's root must agree with the trie.
const std::vector<std::pair<Bytes, Bytes>>& sample_pairs() {
    static const auto pairs = [] {
        std::vector<std::pair<Bytes, Bytes>> all;
        for (const char* key : {"do", "dog", "doge", "horse", "d", "house", "hound"})
            all.emplace_back(to_bytes(as_bytes(key)), Bytes(key[1] == 'o' ? 40 : 3, static_cast<std::uint8_t>(key[0])));
        return all;
    }();
    return pairs;
}

class NoNodes final : public chain::state::TrieNodeReader {
public:
    [[nodiscard]] Expected<Bytes> node(const Hash32&) const override { return fail("trie.missing_node"); }
};

bool run_trie_proof(BytesView input) {
    auto fields = rlp::decode_list(input);
    if (!fields) return false;
    const auto root = fields->fixed<32>();
    if (!root) return false;
    const auto key = fields->bytes();
    if (!key) return false;
    auto nodes = fields->list();
    if (!nodes || !fields->at_end()) return false;
    std::vector<Bytes> proof;
    while (!nodes->at_end()) {
        const auto node = nodes->bytes();
        if (!node) return false;
        proof.push_back(to_bytes(*node));
    }
    // The two readers of nodes take the same, and what is taken has one encoding.
    for (const Bytes& node : proof) {
        const auto plain = chain::state::decode_node(node);
        const auto by_path = chain::state::decode_path_node(node);
        QUERN_PROPERTY(plain.has_value() == by_path.has_value());
        if (!by_path) continue;
        Bytes again;
        chain::state::append_encoding(**by_path, again);
        QUERN_PROPERTY(again == node);
        QUERN_PROPERTY(chain::state::encode_node(**plain) == node);
    }
    const auto value = chain::state::verify_trie_proof(*root, *key, proof);
    if (!value) return false;
    static const Hash32 sample_root = chain::state::trie_root(sample_pairs());
    if (*root == sample_root) {
        std::optional<Bytes> expected;
        for (const auto& [k, v] : sample_pairs())
            if (equal(k, *key)) expected = v;
        QUERN_PROPERTY(*value == expected);
    }
    return true;
}

std::vector<Seed> seeds_trie_proof() {
    NoNodes none;
    chain::state::Trie trie(none);
    for (const auto& [key, value] : sample_pairs()) QUERN_ACCEPTED(trie.put(key, value));
    const Hash32 root = trie.root();
    std::vector<Seed> seeds;
    for (const char* key : {"dog", "d", "cat", "hours"}) {
        const auto proof = trie.prove(as_bytes(key));
        QUERN_ACCEPTED(proof);
        rlp::Writer writer;
        writer.begin_list().fixed(root).bytes(as_bytes(key)).begin_list();
        for (const Bytes& node : *proof) writer.bytes(node);
        writer.end_list().end_list();
        seeds.push_back({std::string("proof_") + key, std::move(writer).finish()});
    }
    return seeds;
}

}  // namespace

std::span<const Target> codec_targets() {
    static constexpr Target kTargets[] = {
        {"rlp", run_rlp, seeds_rlp},
        {"transaction", run_transaction, seeds_transaction},
        {"block", run_block, seeds_block},
        {"header", run_header, seeds_header},
        {"consensus_fields", run_consensus_fields, seeds_consensus_fields},
        {"receipt", run_receipt, seeds_receipt},
        {"trie_proof", run_trie_proof, seeds_trie_proof},
    };
    return kTargets;
}

}  // namespace quern::fuzz
