// eth_*: fees (EIP-1559) of past blocks and advice for the next.
#include <algorithm>
#include <map>

#include "base/mutex.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {
namespace {

using chain::api::BlockSelector;
using chain::api::ChainReader;

constexpr std::uint64_t kMaxHistory = 1024;
constexpr std::size_t kMaxPercentiles = 100;
constexpr std::uint64_t kAdviceBlocks = 20;
constexpr std::uint64_t kDefaultTip = 1'000'000'000;  // when the last blocks hold no transactions
constexpr std::uint64_t kMaxTip = 500'000'000'000;
constexpr std::size_t kAdvicePercent = 60;
constexpr std::size_t kMaxKeptTips = 500'000;  // 40 bytes each

struct PaidTip {
    Uint256 tip;
    std::uint64_t gas = 0;
};

// What blocks' transactions paid above the base fee, ascending: read from the receipts once. Thread-safe.
class TipTable {
public:
    using Tips = std::shared_ptr<const std::vector<PaidTip>>;
    explicit TipTable(const ChainReader* chain) : chain_(chain) {}

    Tips of(const chain::api::BlockView& view) {
        const std::uint64_t number = view.block.header.number;
        {
            const MutexLock lock(mutex_);
            if (const auto found = kept_.find(number); found != kept_.end()) return found->second;
        }
        std::vector<PaidTip> read;
        const Uint256& base_fee = view.block.header.base_fee_per_gas;
        if (!view.block.transactions.empty())
            for (const auto& receipt : chain_->receipts(number))
                read.push_back(
                    {checked_sub(receipt.effective_gas_price, base_fee).value_or(Uint256()), receipt.gas_used});
        std::sort(read.begin(), read.end(), [](const PaidTip& a, const PaidTip& b) { return a.tip < b.tip; });
        auto tips = std::make_shared<const std::vector<PaidTip>>(std::move(read));
        const MutexLock lock(mutex_);
        if (kept_.emplace(number, tips).second) entries_ += 1 + tips->size();
        // The oldest go; a search far back must not push out what everybody asks for.
        while (entries_ > kMaxKeptTips && kept_.begin()->first != number) forget(kept_.begin());
        if (entries_ > kMaxKeptTips) forget(kept_.begin());
        return tips;
    }

private:
    using Kept = std::map<std::uint64_t, Tips>;
    void forget(Kept::iterator which) QUERN_REQUIRES(mutex_) {
        entries_ -= 1 + which->second->size();
        kept_.erase(which);
    }

    const ChainReader* chain_;
    Mutex mutex_;
    Kept kept_ QUERN_GUARDED_BY(mutex_);  // by block number; blocks never change
    std::size_t entries_ QUERN_GUARDED_BY(mutex_) = 0;
};

// The tip that a transaction needs to be like its neighbours in the last blocks; computed once per block.
class TipAdvice {
public:
    TipAdvice(const ChainReader* chain, TipTable& table) : chain_(chain), table_(table) {}

    Uint256 tip() {
        const std::uint64_t head = chain_->head_number();
        const MutexLock lock(mutex_);
        if (known_ && head == head_) return tip_;
        std::vector<Uint256> tips;
        for (std::uint64_t back = 0; back < kAdviceBlocks && back <= head; ++back) {
            const auto view = chain_->block({BlockSelector::Kind::number, head - back, {}});
            if (!view) break;
            // Where there was room it took no more than this: who proposes, and has its own tips back, raises nobody's.
            const auto& header = view->block.header;
            const Uint256 most(header.gas_used < header.gas_limit / 2 ? kDefaultTip : kMaxTip);
            for (const PaidTip& paid : *table_.of(*view)) tips.push_back(std::min(paid.tip, most));
        }
        std::sort(tips.begin(), tips.end());
        tip_ = tips.empty() ? Uint256(kDefaultTip) : tips[(tips.size() - 1) * kAdvicePercent / 100];
        head_ = head;
        known_ = true;
        return tip_;
    }

private:
    const ChainReader* chain_;
    TipTable& table_;
    Mutex mutex_;
    bool known_ QUERN_GUARDED_BY(mutex_) = false;
    std::uint64_t head_ QUERN_GUARDED_BY(mutex_) = 0;
    Uint256 tip_ QUERN_GUARDED_BY(mutex_);
};

Expected<std::vector<double>> read_percentiles(const json::Value& value) {
    if (value.size() > kMaxPercentiles) return fail("value.too_many", "over the query limit 100 of percentiles");
    std::vector<double> percentiles;
    for (const json::Value& item : value.items()) {
        QUERN_TRY(const double percentile, item.as_double());
        if (!(percentile >= 0 && percentile <= 100)) return fail("value.out_of_range", "invalid reward percentile");
        if (!percentiles.empty() && percentile < percentiles.back())
            return fail("value.out_of_range", "invalid reward percentile: they must ascend");
        percentiles.push_back(percentile);
    }
    return percentiles;
}

// The tips at percentiles of the block's gas.
json::Array rewards(const std::vector<PaidTip>& tips, std::uint64_t gas_used, const std::vector<double>& percentiles) {
    json::Array row;
    std::size_t i = 0;
    std::uint64_t gas = tips.empty() ? 0 : tips[0].gas;
    for (const double percentile : percentiles) {
        if (tips.empty()) {
            row.push_back(quantity(0));
            continue;
        }
        const double threshold = static_cast<double>(gas_used) * percentile / 100;
        while (static_cast<double>(gas) < threshold && i + 1 < tips.size()) gas += tips[++i].gas;
        row.push_back(quantity(tips[i].tip));
    }
    return row;
}

Result fee_history(const ChainReader& chain, TipTable& table, const Call& call) {
    std::vector<double> percentiles;
    if (call.has(2)) {
        auto read = read_percentiles(call.value(2));
        if (!read) return rpc_fail(kInvalidParams, read.error().detail);
        percentiles = std::move(*read);
    }
    const auto newest = chain.block(call.block(1));
    if (!newest) return rpc_fail(kServerError, "request beyond head block");
    const std::uint64_t last = newest->block.header.number;
    const std::uint64_t count = std::min({call.number(0), kMaxHistory, last + 1});
    json::Array base_fees;
    json::Array ratios;
    json::Array reward_rows;
    json::Array zeros;
    json::Array zero_ratios;
    for (std::uint64_t number = last + 1 - count; number <= last && count != 0; ++number) {
        if (call.is_cancelled()) return timed_out();
        const auto view = number == last ? newest : chain.block({BlockSelector::Kind::number, number, {}});
        if (!view) return rpc_fail(kServerError, "block " + std::to_string(number) + " is not available");
        const auto& header = view->block.header;
        base_fees.push_back(quantity(header.base_fee_per_gas));
        zeros.push_back(quantity(1));
        zero_ratios.push_back(0.0);
        ratios.push_back(
            header.gas_limit == 0 ? 0.0 : static_cast<double>(header.gas_used) / static_cast<double>(header.gas_limit));
        if (!percentiles.empty()) reward_rows.push_back(rewards(*table.of(*view), header.gas_used, percentiles));
    }
    if (count != 0) {  // the block after the newest
        const auto next = chain.block({BlockSelector::Kind::number, last + 1, {}});
        base_fees.push_back(quantity(next ? next->block.header.base_fee_per_gas : chain.next_base_fee()));
        zeros.push_back(quantity(1));
    }
    json::Value result = json::Value::object({{"oldestBlock", quantity(count == 0 ? 0 : last + 1 - count)},
                                              {"baseFeePerGas", std::move(base_fees)},
                                              {"gasUsedRatio", std::move(ratios)},
                                              {"baseFeePerBlobGas", std::move(zeros)},
                                              {"blobGasUsedRatio", std::move(zero_ratios)}});
    if (!percentiles.empty()) result.set("reward", std::move(reward_rows));
    return result;
}

}  // namespace

Status add_fee_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    const auto table = std::make_shared<TipTable>(chain);
    const auto advice = std::make_shared<TipAdvice>(chain, *table);
    QUERN_CHECK(registry.add({"eth_gasPrice",
                              "A fee per gas with which a transaction gets into one of the next blocks: the next base "
                              "fee and the advised tip.",
                              {},
                              {"quantity", "grains per gas"},
                              {},
                              {{"[]", R"("0x77359400")"}},
                              [chain, advice, table](const Call&) -> Result {
                                  const auto price = checked_add(chain->next_base_fee(), advice->tip());
                                  return quantity(price.value_or(chain->next_base_fee()));
                              }}));
    QUERN_CHECK(
        registry.add({"eth_maxPriorityFeePerGas",
                      "A tip per gas as transactions of the last blocks paid, at most one gwei where blocks had room.",
                      {},
                      {"quantity", "grains per gas"},
                      {},
                      {{"[]", R"("0x3b9aca00")"}},
                      [advice, table](const Call&) -> Result { return quantity(advice->tip()); }}));
    return registry.add({"eth_feeHistory",
                         "Base fees, use of gas and tips of past blocks.",
                         {{"blockCount", Kind::number, true, "how many blocks, at most 1,024"},
                          {"newestBlock", Kind::block, true, "the last of them"},
                          {"rewardPercentiles", Kind::array, false, "ascending numbers from 0 to 100, at most 100"}},
                         {"object", "oldestBlock, baseFeePerGas (one more than blocks), gasUsedRatio, reward"},
                         {{kServerError, "request beyond head block"}},
                         {{R"(["0x2","latest",[50]])",
                           R"({"oldestBlock":"0x10","baseFeePerGas":["0x7","0x7","0x7"],"gasUsedRatio":[0.0,0.0]})"}},
                         [chain, table](const Call& call) -> Result { return fee_history(*chain, *table, call); }});
}

}  // namespace quern::rpc::methods
