// The state machine alone: transfers that are decoded and whose senders are known, on accounts in memory, without roots
// and without a disk. What evmone's block benchmarks measure of a node.
#include <ctime>

#include "bench/cases.h"
#include "chain/exec/block_executor.h"
#include "chain/state/key_table.h"
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
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) give_up("no CPU clock");
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

}  // namespace quern::bench
