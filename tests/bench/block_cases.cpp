// Blocks of transfers through the node's own chain: signature recovery, execution, roots, one synced LevelDB batch.
#include <secp256k1.h>
#include <secp256k1_recovery.h>

#include "base/fs.h"
#include "bench/cases.h"
#include "chain/consensus/beacon.h"
#include "chain/state/flat_state.h"
#include "chain/state/trie.h"
#include "chain/store/block_store.h"
#include "chain/store/leveldb_kv.h"
#include "crypto/hash.h"
#include "node/chain/chain.h"

namespace quern::bench {
namespace {

using namespace chain;

constexpr std::size_t kTransfers = 1'000;  // in a block
constexpr std::size_t kAccounts = 20'000;  // in the state
constexpr std::size_t kWarmUpBlocks = 2;
constexpr const char* kReferenceName = "1,000 libsecp256k1 recoveries, 1 thread";

crypto::PrivateKey key_of(std::uint32_t number) {
    Hash32 secret;
    secret.data[0] = 1;
    for (std::size_t i = 0; i < 4; ++i) secret.data[31 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    return must(crypto::PrivateKey::from_bytes(secret), "key");
}

types::Address filler_address(std::size_t number) {
    const Hash32 hash = crypto::keccak256(as_bytes("account " + std::to_string(number)));
    return types::Address::copy_of(hash.view().first(20));
}

struct Senders {
    std::vector<crypto::PrivateKey> keys;
    std::vector<types::Address> addresses;
};

std::string genesis_text(const Senders& senders) {
    exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    genesis.params.check_invariants = false;
    genesis.params.market.dispute_cost = 1'000'000'000'000'000;
    for (const auto& address : senders.addresses)
        genesis.allocations.push_back({address, Uint256(1'000) * Uint256(params::kGrainsPerQrn)});
    for (std::size_t i = senders.addresses.size(); i < kAccounts; ++i)
        genesis.allocations.push_back({filler_address(i), Uint256(1)});
    genesis.validators.push_back(
        {to_bytes(crypto::derive_public(key_of(0)).bytes.view()), Uint256(chain::params::kGrainsPerQrn)});
    return exec::to_json(genesis).dump();
}

// A chain of its own in a LevelDB of its own.
struct Node {
    std::unique_ptr<store::LevelDbStore> store;
    node::ChainSetup setup;
    std::unique_ptr<mempool::Pool> pool;
    std::unique_ptr<ThreadPool> threads;
    SystemClock clock;
    std::unique_ptr<node::Chain> chain;

    Node(const std::string& folder, const std::string& genesis, std::size_t thread_count) {
        store = must(store::LevelDbStore::open(folder), "LevelDB");
        setup = must(node::open_chain_database(*store, genesis), "genesis");
        pool = std::make_unique<mempool::Pool>(setup.genesis.params);
        threads = std::make_unique<ThreadPool>(thread_count);
        chain = must(node::Chain::open({*store, setup, *pool, *threads, clock, filler_address(0)}), "chain");
    }
};

consensus::Certificate certify(const Node& node, std::uint64_t epoch, std::uint64_t view, const Hash32& hash) {
    const consensus::Vote vote{consensus::VoteType::finalize, epoch, view, hash};
    const consensus::ChainIdentity chain{node.setup.genesis_hash, node.setup.genesis.params.chain_id};
    return consensus::make_certificate(vote, must(node.chain->epoch_setup(), "epoch").committee,
                                       {{0, consensus::sign_vote(chain, vote, key_of(0))}});
}

std::vector<types::RecoveredTransaction> transfers(const Senders& senders, std::uint64_t nonce) {
    std::vector<types::RecoveredTransaction> all;
    for (std::size_t i = 0; i < kTransfers; ++i) {
        types::Transaction tx;
        tx.type = types::TxType::dynamic_fee;
        tx.chain_id = params::kDevnetChainId;
        tx.nonce = nonce;
        tx.max_priority_fee_per_gas = 1'000'000;
        tx.max_fee_per_gas = 1'000'000'000'000;
        tx.gas_limit = 21'000;
        tx.to = filler_address(kTransfers + (i * 7 + nonce * 13) % (kAccounts - kTransfers));
        tx.value = 1;
        types::sign(tx, senders.keys[i]);
        types::RecoveredTransaction recovered{tx, types::encode(tx), {}, senders.addresses[i]};
        recovered.hash = types::transaction_hash(recovered.encoded);
        all.push_back(std::move(recovered));
    }
    return all;
}

// libsecp256k1 alone, on the same signatures.
class PureRecovery {
public:
    PureRecovery() : context_(secp256k1_context_create(SECP256K1_CONTEXT_VERIFY)) {}
    ~PureRecovery() { secp256k1_context_destroy(context_); }
    PureRecovery(const PureRecovery&) = delete;
    PureRecovery& operator=(const PureRecovery&) = delete;

    void add(const types::Transaction& tx) {
        Entry entry;
        entry.digest = types::signing_hash(tx);
        Bytes compact = to_bytes(tx.r.to_be32().view());
        append(compact, tx.s.to_be32());
        if (secp256k1_ecdsa_recoverable_signature_parse_compact(context_, &entry.signature, compact.data(),
                                                                tx.y_parity) != 1)
            give_up("a signature does not parse");
        entries_.push_back(entry);
    }
    void run() const {
        for (const Entry& entry : entries_) {
            secp256k1_pubkey key;
            if (secp256k1_ecdsa_recover(context_, &key, &entry.signature, entry.digest.data.data()) != 1)
                give_up("a signature does not recover");
            keep(key);
        }
    }

private:
    struct Entry {
        Hash32 digest;
        secp256k1_ecdsa_recoverable_signature signature;
    };
    secp256k1_context* context_;
    std::vector<Entry> entries_;
};

double timed(const std::function<void()>& work) {
    const double start = steady_seconds();
    work();
    return steady_seconds() - start;
}

std::string per_second(double seconds) {
    return std::to_string(static_cast<std::uint64_t>(kTransfers / seconds)) + " tx/s";
}

// The same blocks part by part, on a store of their own, each committed before the next.
void bench_parts(Bench& bench, const Senders& senders, const std::string& folder, const Timing& reference) {
    const auto store = must(store::LevelDbStore::open(folder + "/parts"), "LevelDB");
    const auto setup = must(node::open_chain_database(*store, genesis_text(senders)), "genesis");
    params::ChainParams with_invariants = setup.genesis.params;
    with_invariants.check_invariants = true;
    const store::BlockStore blocks(*store);
    const auto head = must(blocks.head(), "head");
    const auto first = must(types::decode_block(must(blocks.block(head->hash), "block").value()), "block");
    state::Roots roots{first.header.state_root, first.header.consensus.native_root};
    const auto tries = must(state::StateTries::open(*store, 0, roots), "tries");
    const state::FlatState flat(*store);
    std::vector<double> executed, checked, rooted, sealed, written;
    const std::size_t count = static_cast<std::size_t>(bench.settings().repetitions) + kWarmUpBlocks;
    for (std::size_t block = 0; block < count; ++block) {
        const auto batch = transfers(senders, block);
        const exec::BlockContext context{block + 1,
                                         1'700'000'000'000 + 1'000 * block,
                                         filler_address(0),
                                         30'000'000,
                                         Uint256(1'000'000'000),
                                         crypto::keccak256(as_bytes(std::to_string(block)))};
        std::vector<types::Receipt> receipts;
        const auto execute = [&](const params::ChainParams& params, state::Overlay& overlay) {
            exec::BlockExecution execution(params, overlay, context);
            execution.begin();
            for (const auto& tx : batch)
                if (const auto result = execution.apply(tx); !result.in_block()) give_up(result.to_string());
            must(execution.finish(), "finish");
            receipts = execution.receipts();
        };
        state::Overlay overlay(flat);
        state::Overlay overlay_checked(flat);
        const double execute_seconds = timed([&] { execute(setup.genesis.params, overlay); });
        const double checked_seconds = timed([&] { execute(with_invariants, overlay_checked); });
        state::StateChange change;
        const double root_seconds =
            timed([&] { change = must(tries->compute(overlay, *tries->head(), *store), "roots"); });
        types::Block body = first;
        const double seal_seconds = timed([&] {
            std::vector<Bytes> encoded_receipts;
            for (const auto& tx : batch) body.transactions.push_back(tx.encoded);
            for (const auto& receipt : receipts)
                encoded_receipts.push_back(types::encode_consensus(receipt, types::bloom_of(receipt.logs)));
            body.header.transactions_root = state::ordered_trie_root(body.transactions);
            body.header.receipts_root = state::ordered_trie_root(encoded_receipts);
        });
        const double write_seconds = timed([&] {
            const Bytes encoded = types::encode(body);
            const Hash32 hash = types::hash_of(body.header);
            std::vector<Bytes> stored_receipts;
            std::vector<Hash32> hashes;
            for (const auto& receipt : receipts) stored_receipts.push_back(types::encode_stored(receipt));
            for (const auto& tx : batch) hashes.push_back(tx.hash);
            store::BlockStore::put_block(change.batch, hash, encoded);
            store::BlockStore::put_receipts(change.batch, hash, stored_receipts);
            store::BlockStore::put_transaction_places(change.batch, {block + 1, hash}, hashes);
            tries->commit(change.version, block + 1, change.batch);
            must(store->write(change.batch, true), "write");
            auto due = tries->take_due_parts();
            must(state::write_parts(*store, due, false), "parts");
            tries->parts_stored(due.parts);
        });
        roots = change.roots;
        if (block < kWarmUpBlocks) continue;
        executed.push_back(execute_seconds);
        checked.push_back(checked_seconds);
        rooted.push_back(root_seconds);
        sealed.push_back(seal_seconds);
        written.push_back(write_seconds);
    }
    const auto row = [&](const char* name, std::vector<double> seconds) {
        bench.add_time(name, summarize(std::move(seconds)), 1, kReferenceName, &reference);
    };
    row("1,000 transfers: execution alone", std::move(executed));
    row("1,000 transfers: execution with invariants checked", std::move(checked));
    row("1,000 transfers: state roots", std::move(rooted));
    row("1,000 transfers: transactions and receipts roots", std::move(sealed));
    row("1,000 transfers: encoding, and one synced LevelDB batch", std::move(written));
}

}  // namespace

void bench_blocks(Bench& bench) {
    Senders senders;
    for (std::uint32_t i = 0; i < kTransfers; ++i) {
        senders.keys.push_back(key_of(i + 1));
        senders.addresses.push_back(crypto::address20(senders.keys.back()));
    }
    const std::string folder = bench.settings().scratch + "/blocks";
    must(fs::create_directories(folder), "scratch folder");
    const std::string genesis = genesis_text(senders);
    Node builder(folder + "/builder", genesis, 1);
    Node one(folder + "/one", genesis, 1);
    Node two(folder + "/two", genesis, 2);
    Node ahead(folder + "/ahead", genesis, 1);  // commits each block after it validated the next one
    std::optional<consensus::BuiltBlock> behind;
    consensus::Certificate behind_certificate;

    const std::size_t blocks = static_cast<std::size_t>(bench.settings().repetitions) + kWarmUpBlocks;
    std::vector<double> built, committed, validated_one, validated_two, validated_ahead, pure, recovered_alone;
    Bytes last_block;
    for (std::size_t block = 0; block < blocks; ++block) {
        const auto batch = transfers(senders, block);
        PureRecovery reference;
        for (const auto& tx : batch) reference.add(tx.tx);
        const consensus::Tip tip = builder.chain->tip();
        const auto snapshot = builder.chain->board().latest();
        for (const auto& tx : batch)
            if (auto added = builder.pool->add(tx, snapshot->state, snapshot->number()); !added.pooled)
                give_up("the pool refused a transfer: " + added.result.to_string());
        const auto epoch = must(builder.chain->epoch_setup(), "epoch");
        consensus::sdbft::BlockRequest request;
        request.parent = tip;
        request.epoch = epoch.epoch;
        request.view = tip.epoch == epoch.epoch ? tip.view + 1 : 1;
        request.timestamp_ms = tip.timestamp_ms + 1'000;
        request.beacon = consensus::next_beacon(tip.beacon, tip.hash);
        request.parent_certificate = builder.chain->tip_certificate();
        request.committee_hash = epoch.committee.hash();
        request.next_committee_hash = epoch.next_committee_hash;
        const auto commit = [&](Node& node, BytesView bytes, const Hash32& hash) {
            keep(must(node.chain->commit(hash, bytes, certify(node, request.epoch, request.view, hash)), "commit"));
        };
        consensus::BuiltBlock made;
        const double build_seconds = timed([&] { made = must(builder.chain->build_block(request), "build"); });
        const double commit_seconds = timed([&] { commit(builder, made.block, made.hash); });
        const auto follow = [&](Node& node) {
            return timed([&] {
                must(node.chain->validate_block(made.hash, made.block), "validate");
                commit(node, made.block, made.hash);
            });
        };
        const double one_seconds = follow(one);
        const double two_seconds = follow(two);
        const double ahead_seconds = timed([&] {
            must(ahead.chain->validate_block(made.hash, made.block), "validate on an uncommitted parent");
            if (behind) keep(must(ahead.chain->commit(behind->hash, behind->block, behind_certificate), "commit"));
        });
        behind_certificate = certify(ahead, request.epoch, request.view, made.hash);
        behind = made;
        const double pure_seconds = timed([&] { reference.run(); });
        const double recover_seconds = timed([&] {
            for (const auto& tx : batch) keep(must(types::recover(tx.encoded), "recover"));
        });
        if (block < kWarmUpBlocks) continue;
        built.push_back(build_seconds + commit_seconds);
        committed.push_back(commit_seconds);
        validated_one.push_back(one_seconds);
        validated_two.push_back(two_seconds);
        validated_ahead.push_back(ahead_seconds);
        pure.push_back(pure_seconds);
        recovered_alone.push_back(recover_seconds);
    }
    const Timing reference = summarize(pure);
    const auto row = [&](const char* name, std::vector<double> seconds) {
        const Timing timing = summarize(std::move(seconds));
        bench.add_time(name, timing, 1, kReferenceName, &reference, 1, per_second(timing.median));
    };
    row("block of 1,000 transfers, recovered and executed and committed, 1 thread", validated_one);
    row("block of 1,000 transfers, recovered and executed and committed, 2 threads", validated_two);
    row("the same on a parent that is not committed yet, 1 thread", validated_ahead);
    row("block of 1,000 transfers, senders known: built and committed", built);
    row("of that, the commit", committed);
    row("1,000 transfers decoded, hashed and recovered, 1 thread", recovered_alone);

    bench_parts(bench, senders, folder, reference);
}

}  // namespace quern::bench
