// The pool under any sequence of submissions, blocks, refusals and expiry, with limits so small that each is met. After
// each step its tables agree and its limits hold; nobody leaves it without a reason; what it would put into a block is
// in the order of price and nonces.
#include "fuzz/mempool_targets.h"

#include <algorithm>
#include <map>

#include "chain/exec/fees.h"
#include "chain/mempool/selection.h"
#include "crypto/hash.h"

namespace quern::fuzz {
namespace {

namespace types = chain::types;
namespace state = chain::state;
namespace exec = chain::exec;
namespace mempool = chain::mempool;

constexpr std::size_t kAccounts = 6;
constexpr std::uint64_t kGwei = 1'000'000'000;
constexpr std::uint64_t kGas = 21'000;

// Reads numbers off the input; zeros when it is at its end.
class Choices {
public:
    explicit Choices(BytesView input) : rest_(input) {}
    [[nodiscard]] bool empty() const { return rest_.empty(); }
    std::uint64_t below(std::uint64_t bound) {
        if (rest_.empty()) return 0;
        const std::uint64_t value = rest_[0];
        rest_ = rest_.subspan(1);
        return value % bound;
    }

private:
    BytesView rest_;
};

class Accounts final : public state::StateReader {
public:
    std::array<state::Account, kAccounts> all;
    static types::Address address(std::size_t number) {
        return types::Address::copy_of(crypto::keccak256(as_bytes("fuzz " + std::to_string(number))).view().first(20));
    }
    static std::size_t number_of(const types::Address& wanted) {
        for (std::size_t i = 0; i < kAccounts; ++i)
            if (address(i) == wanted) return i;
        return kAccounts;
    }
    std::optional<state::Account> account(const types::Address& wanted) const override {
        const std::size_t number = number_of(wanted);
        return number < kAccounts ? std::optional(all[number]) : std::nullopt;
    }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }
};

mempool::PoolLimits tiny_limits() {
    mempool::PoolLimits limits;
    limits.max_transactions = 12;
    limits.max_bytes = 26'000;
    limits.max_per_sender = 5;
    limits.max_nonce_gap = 8;
    limits.max_parked = 5;
    limits.max_parked_bytes = 12'000;
    limits.max_parked_per_sender = 3;
    limits.max_parked_per_source = 4;
    limits.parked_blocks = 20;
    limits.waiting_blocks = 60;
    return limits;
}

class PoolRun {
public:
    explicit PoolRun(BytesView input) : choices_(input), pool_(params_, limits_) {
        params_.check_invariants = false;
        for (auto& account : accounts_.all) {
            account = state::empty_account();
            account.balance = money(40);
        }
    }

    // Whether anything was ever taken.
    bool run() {
        while (!choices_.empty()) {
            switch (choices_.below(8)) {
                case 0:
                    block();
                    break;
                case 1:
                    refuse();
                    break;
                case 2:
                    pay();
                    break;
                case 3:
                    order();
                    break;
                default:
                    submit();
            }
            const auto whole = pool_.check();
            QUERN_ACCEPTED(whole);
        }
        return taken_;
    }

private:
    struct Known {
        mempool::PooledPtr pooled;
        bool ready = false;
    };
    static Uint256 money(std::uint64_t transfers) { return Uint256(transfers * kGas * 10) * kGwei; }

    // All that waits, and what of it its sender's account can execute.
    [[nodiscard]] std::map<Hash32, Known> contents() const {
        std::map<Hash32, Known> result;
        for (const auto& pooled : pool_.arrived_after(0, SIZE_MAX)) result[pooled->transaction.hash] = {pooled, false};
        for (const auto& pooled : mempool::Selection(pool_, 0).pull(SIZE_MAX))
            result.at(pooled->transaction.hash).ready = true;
        return result;
    }

    void submit() {
        const std::size_t number = choices_.below(kAccounts);
        types::Transaction tx;
        tx.type = types::TxType::dynamic_fee;
        tx.chain_id = params_.chain_id;
        const std::uint64_t offset = choices_.below(12);
        tx.nonce = accounts_.all[number].nonce + offset - (offset == 11 && accounts_.all[number].nonce > 0 ? 12 : 0);
        tx.max_fee_per_gas = Uint256(1 + choices_.below(30)) * kGwei;
        tx.max_priority_fee_per_gas = Uint256(choices_.below(20)) * kGwei;
        tx.gas_limit = kGas;
        if (const std::uint64_t size = choices_.below(4); size == 3) {
            tx.data = Bytes(1'500, 0);
            tx.gas_limit = 60'000;
        }
        tx.to = Accounts::address(0);
        tx.r = 1;
        tx.s = ++serial_;
        types::RecoveredTransaction transaction{tx, types::encode(tx), {}, Accounts::address(number)};
        transaction.hash = types::transaction_hash(transaction.encoded);
        mempool::Source source;
        source.data[0] = static_cast<std::uint8_t>(choices_.below(3));

        const auto before = contents();
        const auto before_status = pool_.status();
        const std::size_t before_parked = pool_.parked();
        const auto admitted = pool_.add(transaction, accounts_, height_, source);
        taken_ = taken_ || admitted.pooled;
        const auto after = contents();
        QUERN_PROPERTY(after.contains(transaction.hash) == (admitted.pooled != nullptr));
        const bool over_quota = before_parked > 0;
        for (const auto& [hash, known] : before) {
            if (after.contains(hash)) continue;
            const auto& lost = known.pooled->transaction;
            // The pool may hear only now that the account's money went.
            if (lost.sender == transaction.sender && paid_.contains(number)) continue;
            if (!admitted.pooled) {
                // A refusal costs nobody anything, but that the account's news may park more than there is room for.
                QUERN_PROPERTY(!known.ready);
                continue;
            }
            const bool replaced = lost.sender == transaction.sender && lost.tx.nonce == tx.nonce;
            if (replaced) {
                QUERN_PROPERTY(tx.max_fee_per_gas > lost.tx.max_fee_per_gas);
                continue;
            }
            const bool fresh_ready = after.at(transaction.hash).ready;
            if (known.ready) {
                QUERN_PROPERTY(fresh_ready);
                QUERN_PROPERTY(lost.sender != transaction.sender);
                QUERN_PROPERTY(mempool::price_of(*known.pooled) < mempool::price_of(*admitted.pooled));
                const bool full = before_status.transactions + 1 > limits_.max_transactions ||
                                  before_status.bytes + admitted.pooled->bytes > limits_.max_bytes;
                QUERN_PROPERTY(full);
            } else {
                const bool near_a_limit = before_status.transactions + 1 > limits_.max_transactions ||
                                          before_status.bytes + admitted.pooled->bytes > limits_.max_bytes ||
                                          over_quota;
                QUERN_PROPERTY(near_a_limit);
            }
        }
    }

    void block() {
        const Uint256 base_fee = Uint256(1 + choices_.below(12)) * kGwei;
        mempool::Selection selection(pool_, base_fee);
        std::map<std::size_t, bool> senders;
        for (const auto& pooled : selection.pull(choices_.below(6))) {
            const std::size_t number = Accounts::number_of(pooled->transaction.sender);
            auto& account = accounts_.all[number];
            if (pooled->transaction.tx.nonce != account.nonce) continue;
            ++account.nonce;
            account.balance -= std::min(account.balance, mempool::cost_of(*pooled));
            senders[number] = true;
        }
        // One that came from elsewhere.
        if (choices_.below(4) == 1) {
            const std::size_t number = choices_.below(kAccounts);
            ++accounts_.all[number].nonce;
            accounts_.all[number].balance = money(choices_.below(10));
            senders[number] = true;
        }
        height_ += 1 + (choices_.below(8) == 7 ? choices_.below(80) : 0);
        std::vector<mempool::AccountAfter> after;
        for (const auto& [number, sent] : senders) {
            const auto& account = accounts_.all[number];
            after.push_back({Accounts::address(number), {account.nonce, account.balance}});
        }
        pool_.on_block(after, accounts_, height_);
        for (const auto& pooled : pool_.arrived_after(0, SIZE_MAX)) {
            QUERN_PROPERTY(pooled->height + limits_.waiting_blocks >= height_);
            const std::size_t number = Accounts::number_of(pooled->transaction.sender);
            if (senders.contains(number)) QUERN_PROPERTY(pooled->transaction.tx.nonce >= accounts_.all[number].nonce);
        }
    }

    void refuse() {
        const auto all = pool_.arrived_after(0, SIZE_MAX);
        if (all.empty()) return;
        const auto& victim = all[choices_.below(all.size())];
        pool_.drop({victim->transaction.hash});
        QUERN_PROPERTY(pool_.find(victim->transaction.hash) == nullptr);
    }

    // Money comes or goes without a transaction of the account's own.
    void pay() {
        const std::size_t number = choices_.below(kAccounts);
        accounts_.all[number].balance = money(choices_.below(60));
        paid_.insert(number);
    }

    void order() {
        const Uint256 base_fee = Uint256(1 + choices_.below(12)) * kGwei;
        mempool::Selection selection(pool_, base_fee);
        std::map<types::Address, std::uint64_t> next;
        std::optional<Uint256> before;
        std::size_t count = 0;
        for (;;) {
            const auto pulled = selection.pull(1 + choices_.below(4));
            if (pulled.empty()) break;
            for (const auto& pooled : pulled) {
                const auto& transaction = pooled->transaction;
                QUERN_PROPERTY(exec::pays_base_fee(transaction.tx, base_fee));
                const Uint256 tip = types::effective_gas_price(transaction.tx, base_fee) - base_fee;
                const auto known = next.find(transaction.sender);
                if (known != next.end()) {
                    QUERN_PROPERTY(transaction.tx.nonce == known->second);
                } else if (before) {
                    // A sender's first one comes no later than others that pay less.
                    QUERN_PROPERTY(tip <= *before);
                }
                next[transaction.sender] = transaction.tx.nonce + 1;
                if (!before || tip < *before) before = tip;
                ++count;
            }
        }
        QUERN_PROPERTY(count <= pool_.status().executable);
        QUERN_PROPERTY((count != 0) == pool_.has_executable(base_fee));
    }

    Choices choices_;
    chain::params::ChainParams params_;
    const mempool::PoolLimits limits_ = tiny_limits();
    mempool::Pool pool_;
    Accounts accounts_;
    std::set<std::size_t> paid_;  // accounts whose money changed at some time without the pool's knowing
    std::uint64_t height_ = 0;
    std::uint64_t serial_ = 0;
    bool taken_ = false;
};

bool run_mempool(BytesView input) { return PoolRun(input).run(); }

std::vector<Seed> mempool_seeds() {
    const auto submit = [](std::uint8_t account, std::uint8_t nonce, std::uint8_t fee, std::uint8_t source) {
        return Bytes{4, account, nonce, fee, fee, 0, source};
    };
    const auto joined = [](const std::vector<Bytes>& parts) {
        Bytes all;
        for (const auto& part : parts) append(all, part);
        return all;
    };
    std::vector<Bytes> fill;
    for (std::uint8_t i = 0; i < 20; ++i)
        fill.push_back(submit(i % 6, static_cast<std::uint8_t>(i / 6), static_cast<std::uint8_t>(5 + i), i % 3));
    std::vector<Bytes> gaps;
    for (std::uint8_t i = 0; i < 12; ++i)
        gaps.push_back(submit(i % 6, static_cast<std::uint8_t>(2 + i / 6), static_cast<std::uint8_t>(20 - i), i % 3));
    std::vector<Bytes> mixed = fill;
    mixed.insert(mixed.end(), gaps.begin(), gaps.end());
    mixed.push_back({3, 0, 1, 1, 1});
    mixed.push_back({0, 2, 5, 1, 3, 4, 0});
    mixed.push_back({2, 1, 0, 1, 3});
    mixed.push_back({0, 2, 2, 0, 7, 70});
    mixed.insert(mixed.end(), fill.begin(), fill.end());
    return {{"fill", joined(fill)}, {"gaps", joined(gaps)}, {"mixed", joined(mixed)}};
}

constexpr Target kTargets[] = {{"mempool", run_mempool, mempool_seeds, 600}};

}  // namespace

std::span<const Target> mempool_targets() { return kTargets; }

}  // namespace quern::fuzz
