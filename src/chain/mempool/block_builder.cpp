#include "chain/mempool/block_builder.h"

#include <algorithm>

namespace quern::chain::mempool {
namespace {

constexpr std::size_t kTransactionOverheadBytes = 5;  // RLP string prefix in the body

class Filler {
public:
    Filler(exec::BlockExecution& execution, Selection& selection, const FillLimits& limits)
        : execution_(execution), selection_(selection), limits_(limits) {}

    void fill_lane(const LaneRule& lane) {
        const auto runs = due_runs(lane);
        std::vector<std::size_t> next(runs.size(), 0);
        std::uint64_t gas_left = limits_.gas_limit / 100 * limits_.lane_percent;
        // By side: one that may always concede, and fails to, must not take the place of the other's move.
        std::set<std::pair<std::uint64_t, types::Address>> served;
        // A run may hold moves of several games one after the other: passes go on while something was included.
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t i = 0; i < runs.size(); ++i) {
                if (next[i] >= runs[i].size()) continue;
                const PooledPtr& head = runs[i][next[i]];
                const auto& transaction = head->transaction;
                if (transaction.tx.gas_limit > gas_left || !is_allowed(head)) continue;
                const auto game = lane(transaction);
                if (!game || served.contains({*game, transaction.sender})) continue;
                const std::uint64_t before = execution_.gas_used();
                if (!include(head)) {
                    next[i] = runs[i].size();
                    continue;
                }
                gas_left -= std::min(gas_left, execution_.gas_used() - before);
                served.emplace(*game, transaction.sender);
                ++next[i];
                selection_.took(transaction.sender, transaction.tx.nonce + 1);
                progress = true;
            }
        }
        block_.from_lane = block_.included.size();
        misfits_ = 0;
    }

    void fill_by_price() {
        for (;;) {
            const auto pulled = selection_.pull(kTransactionsPerPull);
            for (const PooledPtr& pooled : pulled) {
                if (is_full()) return;
                if (closed_.contains(pooled->transaction.sender)) continue;
                if (!is_allowed(pooled) || !include(pooled)) close(pooled->transaction.sender);
            }
            if (pulled.size() < kTransactionsPerPull) return;
        }
    }

    [[nodiscard]] FilledBlock take() { return std::move(block_); }

private:
    // Those whose first is due. Others that only look like moves must not stand before them, nor take the block's time.
    [[nodiscard]] std::vector<std::vector<PooledPtr>> due_runs(const LaneRule& lane) {
        std::vector<std::vector<PooledPtr>> due;
        while (selection_.moves_looked_at() < kMaxLaneLooks && due.size() < kMaxLaneSenders &&
               selection_.has_more_moves()) {
            for (auto& run : selection_.next_moves(kMaxLaneSenders))
                if (due.size() < kMaxLaneSenders && lane(run[0]->transaction)) due.push_back(std::move(run));
            if (selection_.has_more_moves() && limits_.enough && limits_.enough(execution_.gas_used(), bytes_)) break;
        }
        return due;
    }
    [[nodiscard]] bool is_allowed(const PooledPtr& pooled) const {
        return !limits_.leave_out || !limits_.leave_out(pooled->transaction.hash);
    }
    void close(const types::Address& sender) {
        closed_.insert(sender);
        selection_.close(sender);
    }
    [[nodiscard]] std::uint64_t gas_left() const { return limits_.gas_limit - execution_.gas_used(); }
    // Misfits say that the block is full only when it nearly is: else a few that ask for a whole block's gas and use
    // little of it would keep all others out.
    [[nodiscard]] bool has_much_room() const {
        return gas_left() > limits_.gas_limit / kNearlyFull &&
               limits_.max_bytes - bytes_ > limits_.max_bytes / kNearlyFull;
    }
    [[nodiscard]] bool is_full() {
        if (block_.included.size() >= limits_.max_transactions || gas_left() < kLeastGas) return true;
        if (misfits_ >= kMaxMisfits && !has_much_room()) return true;
        const std::size_t looked_at = block_.included.size() + misfits_;
        if (!limits_.enough || asked_at_ == looked_at) return false;
        asked_at_ = looked_at;
        block_.cut_short = limits_.enough(execution_.gas_used(), bytes_);
        return block_.cut_short;
    }
    bool include(const PooledPtr& pooled) {
        const std::size_t size = pooled->transaction.encoded.size() + kTransactionOverheadBytes;
        exec::Result result = exec::retry("block.no_room");
        // Asked here first: a misfit must cost little.
        if (bytes_ + size <= limits_.max_bytes && pooled->transaction.tx.gas_limit <= gas_left() &&
            block_.included.size() < limits_.max_transactions)
            result = execution_.apply(pooled->transaction);
        if (result.in_block()) {
            bytes_ += size;
            misfits_ = 0;
            block_.included.push_back(pooled);
            return true;
        }
        if (result.band == exec::Band::retry)
            ++misfits_;
        else
            block_.refused.push_back({pooled, std::move(result)});
        return false;
    }

    exec::BlockExecution& execution_;
    Selection& selection_;
    const FillLimits& limits_;
    std::unordered_set<types::Address, SeededHasher> closed_;
    std::size_t bytes_ = 0;
    std::size_t misfits_ = 0;
    std::size_t asked_at_ = 0;
    FilledBlock block_;
};

}  // namespace

bool refused_for_good(const params::ChainParams& params, const state::StateReader& committed, std::uint64_t height,
                      const types::RecoveredTransaction& transaction) {
    const auto result = exec::precheck(params, committed, height, transaction, params.min_base_fee);
    return result.band == exec::Band::refused || result.band == exec::Band::malformed;
}

FilledBlock fill_block(exec::BlockExecution& execution, Selection& selection, const FillLimits& limits,
                       const LaneRule& lane) {
    Filler filler(execution, selection, limits);
    filler.fill_lane(lane);
    filler.fill_by_price();
    return filler.take();
}

}  // namespace quern::chain::mempool
