// The state without signatures. The state machine alone: transfers that are decoded and whose senders are known, on
// accounts in memory, without roots and without a disk, which is what evmone's block benchmarks measure of a node. And
// the tries alone: roots, and what is written of them, with few and with many accounts. CPU time of the process.
#include <ctime>

#include "base/rng.h"
#include "bench/cases.h"
#include "chain/exec/block_executor.h"
#include "chain/state/flat_state.h"
#include "chain/state/key_table.h"
#include "chain/state/state_tries.h"
#include "chain/store/leveldb_kv.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"

namespace quern::bench {
namespace {

using namespace chain;

constexpr std::size_t kTransfers = 20'000;  // in a block
constexpr std::size_t kAccounts = 20'000;

types::Address address_of(std::size_t number) {
    const Hash32 hash = crypto::keccak256(as_bytes("account " + std::to_string(number)));
    return types::Address::copy_of(hash.view().first(20));
}

class AccountsInMemory final : public state::StateReader {
public:
    void put(const types::Address& address, const state::Account& account) {
        accounts_.find_or_add(address).first->value = account;
    }
    std::optional<state::Account> account(const types::Address& address) const override {
        const auto* entry = accounts_.find(address);
        return entry == nullptr ? std::nullopt : std::optional(entry->value);
    }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }

private:
    state::KeyTable<types::Address, state::Account> accounts_;
};

double cpu_seconds() {
    timespec now{};
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) give_up("no CPU clock");
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void bench_transition(Bench& bench) {
    params::ChainParams params;
    params.chain_id = params::kDevnetChainId;
    params.check_invariants = false;
    AccountsInMemory accounts;
    state::Account rich = state::empty_account();
    rich.balance = Uint256(1'000'000) * Uint256(params::kGrainsPerQrn);
    std::vector<types::RecoveredTransaction> transfers(kTransfers);
    for (std::size_t i = 0; i < kAccounts; ++i) accounts.put(address_of(i), rich);
    for (std::size_t i = 0; i < kTransfers; ++i) {
        auto& [tx, encoded, hash, sender] = transfers[i];
        tx.type = types::TxType::dynamic_fee;
        tx.chain_id = params.chain_id;
        tx.max_priority_fee_per_gas = 1'000'000;
        tx.max_fee_per_gas = 1'000'000'000'000;
        tx.gas_limit = 21'000;
        tx.to = address_of((i * 7'919 + 13) % kAccounts);
        tx.value = 1;
        sender = address_of(i);
    }
    exec::BlockContext context;
    context.number = 1;
    context.beneficiary = address_of(kAccounts);
    context.gas_limit = kTransfers * 21'000;
    context.base_fee = Uint256(1'000'000'000);
    std::vector<double> seconds;
    for (int i = 0; i < bench.settings().repetitions + 1; ++i) {
        const double start = cpu_seconds();
        state::Overlay overlay(accounts);
        exec::BlockExecution execution(params, overlay, context);
        execution.begin();
        for (const auto& transfer : transfers)
            if (const auto result = execution.apply(transfer); !result.in_block()) give_up(result.to_string());
        keep(execution.receipts());
        if (i > 0) seconds.push_back((cpu_seconds() - start) / static_cast<double>(kTransfers));
    }
    const Timing timing = summarize(std::move(seconds));
    bench.add_time("state transition alone, a transfer (CPU time)", timing, 1, {}, nullptr, 1,
                   std::to_string(static_cast<std::uint64_t>(1 / timing.median)) + " tx/s");
}

namespace {

constexpr std::size_t kTrieTransfers = 2'000;  // in a block
constexpr std::size_t kTrieBlocks = 24;        // for each repetition: 1,000,000 transfers with the default of 21

struct Written {
    std::size_t nodes = 0;    // of tries, with the parts' marks
    std::size_t changes = 0;  // what was there before, for the newest 128 states
    void add(const store::WriteBatch& batch) {
        for (const auto& operation : batch.operations()) {
            const auto table = static_cast<store::Table>(operation.key[0]);
            const std::size_t bytes = operation.key.size() + (operation.value ? operation.value->size() : 0);
            if (table == store::Table::changes)
                changes += bytes;
            else if (table >= store::Table::account_trie && table <= store::Table::above_parts)
                nodes += bytes;
        }
    }
};

// Blocks in which each transfer changes two accounts of all, evenly.
void bench_tries_with(Bench& bench, std::size_t accounts) {
    const std::string label = "tries, " + std::to_string(accounts) + " accounts: ";
    const auto store =
        must(store::LevelDbStore::open(bench.settings().scratch + "/tries" + std::to_string(accounts)), "LevelDB");
    const state::FlatState flat(*store);
    std::vector<types::Address> addresses;
    for (std::size_t i = 0; i < accounts; ++i) addresses.push_back(address_of(i));
    state::Roots roots;
    {
        state::Overlay first(flat);
        for (const auto& address : addresses) first.change_account(address).balance = Uint256(params::kGrainsPerQrn);
        roots = must(state::commit_overlay(first, roots, *store), "genesis");
    }
    auto tries = must(state::StateTries::open(*store, 0, roots), "open");
    std::vector<double> computed, committed;
    Written written;
    SeededRng rng(accounts);
    const std::size_t blocks = kTrieBlocks * static_cast<std::size_t>(bench.settings().repetitions);
    for (std::size_t block = 1; block <= blocks; ++block) {
        state::Overlay overlay(flat);
        for (std::size_t i = 0; i < 2 * kTrieTransfers; ++i) {
            state::Account& account = overlay.change_account(addresses[rng.below(accounts)]);
            account.nonce += i % 2;
            account.balance += Uint256(1);
        }
        const double start = cpu_seconds();
        auto change = must(tries->compute(overlay, *tries->head(), *store), "roots");
        const double between = cpu_seconds();
        tries->commit(change.version, block, change.batch);
        const double end = cpu_seconds();
        roots = change.roots;
        written.add(change.batch);
        must(store->write(change.batch, false), "write");
        const double taking = cpu_seconds();
        auto due = tries->take_due_parts();
        const double taken = cpu_seconds();
        must(state::write_parts(*store, due, false), "parts");
        written.add(due.batch);
        tries->parts_stored(due.parts);
        computed.push_back((between - start) / static_cast<double>(kTrieTransfers));
        committed.push_back((end - between + taken - taking) / static_cast<double>(kTrieTransfers));
    }
    bench.add_time(label + "roots, a transfer", summarize(computed), 1);
    bench.add_time(label + "nodes for the store, a transfer", summarize(committed), 1);
    const auto transfers = static_cast<double>(blocks * kTrieTransfers);
    bench.add_count(label + "bytes of nodes written, a transfer", static_cast<double>(written.nodes) / transfers,
                    "bytes", "over " + std::to_string(blocks * kTrieTransfers) + " transfers");
    bench.add_count(label + "bytes of what was before, a transfer", static_cast<double>(written.changes) / transfers,
                    "bytes");
    const std::size_t behind = tries->changes_behind();
    tries.reset();
    const double start = cpu_seconds();
    ThreadPool pool;
    tries = must(state::StateTries::open(*store, blocks, roots, &pool), "open again");
    bench.add_count(label + "start, CPU", cpu_seconds() - start, "s", std::to_string(behind) + " changes to repeat");
}

}  // namespace

void bench_tries(Bench& bench) { bench_tries_with(bench, 20'000); }
void bench_tries_million(Bench& bench) { bench_tries_with(bench, 1'000'000); }

}  // namespace quern::bench
