#include "chain/mempool/block_builder.h"

#include <algorithm>
#include <queue>

#include "chain/exec/fees.h"

namespace quern::chain::mempool {
namespace {

constexpr std::size_t kTransactionOverheadBytes = 5;  // RLP string prefix in the body

class Filler {
public:
    Filler(exec::BlockExecution& execution, std::vector<SenderQueue> queues, const Uint256& base_fee,
           const FillLimits& limits)
        : execution_(execution),
          queues_(std::move(queues)),
          next_(queues_.size(), 0),
          base_fee_(base_fee),
          limits_(limits) {}

    void fill_lane(const LaneRule& lane) {
        std::uint64_t gas_left = limits_.gas_limit / 100 * limits_.lane_percent;
        std::set<std::uint64_t> served;
        // A queue may hold moves of several games one after the other: passes go on while something was included.
        for (bool progress = true; progress;) {
            progress = false;
            for (const std::size_t queue : by_price()) {
                const auto& head = queues_[queue][next_[queue]]->transaction;
                if (head.tx.gas_limit > gas_left) continue;
                const auto game = lane(head);
                if (!game || served.contains(*game)) continue;
                const std::uint64_t before = execution_.gas_used();
                if (!include(queue)) continue;
                gas_left -= std::min(gas_left, execution_.gas_used() - before);
                served.insert(*game);
                progress = true;
            }
        }
        block_.from_lane = block_.included.size();
    }

    void fill_by_price() {
        const auto cheaper = [this](std::size_t a, std::size_t b) { return better(b, a); };
        std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(cheaper)> heads(cheaper, by_price());
        while (!heads.empty()) {
            const std::size_t queue = heads.top();
            heads.pop();
            if (include(queue) && payable(queue)) heads.push(queue);
        }
    }

    [[nodiscard]] FilledBlock take() { return std::move(block_); }

private:
    // Has a next transaction that can pay the base fee.
    [[nodiscard]] bool payable(std::size_t queue) const {
        return next_[queue] < queues_[queue].size() &&
               exec::pays_base_fee(queues_[queue][next_[queue]]->transaction.tx, base_fee_);
    }
    [[nodiscard]] Uint256 tip(std::size_t queue) const {
        // What pays nothing is of use to all: it comes first.
        if (exec::travels_free(queues_[queue][next_[queue]]->transaction.tx)) return ~Uint256();
        return types::effective_gas_price(queues_[queue][next_[queue]]->transaction.tx, base_fee_) - base_fee_;
    }
    [[nodiscard]] bool better(std::size_t a, std::size_t b) const {
        const Uint256 tip_a = tip(a);
        const Uint256 tip_b = tip(b);
        if (tip_a != tip_b) return tip_a > tip_b;
        return queues_[a][next_[a]]->arrival < queues_[b][next_[b]]->arrival;
    }
    [[nodiscard]] std::vector<std::size_t> by_price() const {
        std::vector<std::size_t> order;
        for (std::size_t queue = 0; queue < queues_.size(); ++queue)
            if (payable(queue)) order.push_back(queue);
        std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return better(a, b); });
        return order;
    }
    // Executes the queue's next transaction; false closes the queue for this block.
    bool include(std::size_t queue) {
        const PooledPtr pooled = queues_[queue][next_[queue]];
        const std::size_t size = pooled->transaction.encoded.size() + kTransactionOverheadBytes;
        exec::Result result = exec::retry("block.no_room");
        if (bytes_ + size <= limits_.max_bytes) result = execution_.apply(pooled->transaction);
        if (result.in_block()) {
            bytes_ += size;
            block_.included.push_back(pooled);
            ++next_[queue];
            return true;
        }
        if (result.band != exec::Band::retry) block_.refused.push_back({pooled, std::move(result)});
        next_[queue] = queues_[queue].size();
        return false;
    }

    exec::BlockExecution& execution_;
    std::vector<SenderQueue> queues_;
    std::vector<std::size_t> next_;
    const Uint256& base_fee_;
    const FillLimits& limits_;
    std::size_t bytes_ = 0;
    FilledBlock block_;
};

}  // namespace

std::vector<SenderQueue> executable_on(std::vector<SenderQueue> queues, const state::StateReader& state) {
    for (auto& queue : queues) {
        if (queue.empty()) continue;
        std::uint64_t nonce = state.account(queue.front()->transaction.sender).value_or(state::empty_account()).nonce;
        const auto first = std::find_if(queue.begin(), queue.end(),
                                        [&](const PooledPtr& pooled) { return pooled->transaction.tx.nonce >= nonce; });
        auto last = first;
        while (last != queue.end() && (*last)->transaction.tx.nonce == nonce) ++last, ++nonce;
        queue.erase(last, queue.end());
        queue.erase(queue.begin(), first);
    }
    std::erase_if(queues, [](const SenderQueue& queue) { return queue.empty(); });
    return queues;
}

bool refused_for_good(const params::ChainParams& params, const state::StateReader& committed,
                      const types::RecoveredTransaction& transaction) {
    const auto result = exec::precheck(params, committed, transaction, params.min_base_fee);
    return result.band == exec::Band::refused || result.band == exec::Band::malformed;
}

FilledBlock fill_block(exec::BlockExecution& execution, std::vector<SenderQueue> queues, const Uint256& base_fee,
                       const FillLimits& limits, const LaneRule& lane) {
    Filler filler(execution, std::move(queues), base_fee, limits);
    filler.fill_lane(lane);
    filler.fill_by_price();
    return filler.take();
}

}  // namespace quern::chain::mempool
