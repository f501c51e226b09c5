// eth_*: fees (EIP-1559) of past blocks and advice for the next.
#include <algorithm>
#include <mutex>

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

struct PaidTip {
    Uint256 tip;
    std::uint64_t gas = 0;
};

// What the block's transactions paid above the base fee, ascending.
std::vector<PaidTip> tips_of(const ChainReader& chain, const chain::api::BlockView& view) {
    std::vector<PaidTip> tips;
    const Uint256& base_fee = view.block.header.base_fee_per_gas;
    for (const auto& receipt : chain.receipts(view.block.header.number)) {
        const auto tip = checked_sub(receipt.effective_gas_price, base_fee);
        tips.push_back({tip.value_or(Uint256()), receipt.gas_used});
    }
    std::sort(tips.begin(), tips.end(), [](const PaidTip& a, const PaidTip& b) { return a.tip < b.tip; });
    return tips;
}

// The tip that a transaction needs to be like its neighbours in the last blocks; computed once per block.
class TipAdvice {
public:
    explicit TipAdvice(const ChainReader* chain) : chain_(chain) {}

    Uint256 tip() {
        const std::uint64_t head = chain_->head_number();
        const std::lock_guard lock(mutex_);
        if (known_ && head == head_) return tip_;
        std::vector<Uint256> tips;
        for (std::uint64_t back = 0; back < kAdviceBlocks && back <= head; ++back) {
            const auto view = chain_->block({BlockSelector::Kind::number, head - back, {}});
            if (!view) break;
            for (const PaidTip& paid : tips_of(*chain_, *view)) tips.push_back(paid.tip);
        }
        std::sort(tips.begin(), tips.end());
        tip_ = tips.empty() ? Uint256(kDefaultTip) : tips[(tips.size() - 1) * kAdvicePercent / 100];
        tip_ = std::min(tip_, Uint256(kMaxTip));
        head_ = head;
        known_ = true;
        return tip_;
    }

private:
    const ChainReader* chain_;
    std::mutex mutex_;
    bool known_ = false;
    std::uint64_t head_ = 0;
    Uint256 tip_;
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

Result fee_history(const ChainReader& chain, const Call& call) {
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
        if (!percentiles.empty()) reward_rows.push_back(rewards(tips_of(chain, *view), header.gas_used, percentiles));
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
    const auto advice = std::make_shared<TipAdvice>(chain);
    QUERN_CHECK(registry.add({"eth_gasPrice",
                              "A fee per gas with which a transaction gets into one of the next blocks: the next base "
                              "fee and the advised tip.",
                              {},
                              {"quantity", "grains per gas"},
                              {},
                              {{"[]", R"("0x77359400")"}},
                              [chain, advice](const Call&) -> Result {
                                  const auto price = checked_add(chain->next_base_fee(), advice->tip());
                                  return quantity(price.value_or(chain->next_base_fee()));
                              }}));
    QUERN_CHECK(registry.add({"eth_maxPriorityFeePerGas",
                              "A tip per gas as transactions of the last blocks paid.",
                              {},
                              {"quantity", "grains per gas"},
                              {},
                              {{"[]", R"("0x3b9aca00")"}},
                              [advice](const Call&) -> Result { return quantity(advice->tip()); }}));
    return registry.add({"eth_feeHistory",
                         "Base fees, use of gas and tips of past blocks.",
                         {{"blockCount", Kind::number, true, "how many blocks, at most 1,024"},
                          {"newestBlock", Kind::block, true, "the last of them"},
                          {"rewardPercentiles", Kind::array, false, "ascending numbers from 0 to 100, at most 100"}},
                         {"object", "oldestBlock, baseFeePerGas (one more than blocks), gasUsedRatio, reward"},
                         {{kServerError, "request beyond head block"}},
                         {{R"(["0x2","latest",[50]])",
                           R"({"oldestBlock":"0x10","baseFeePerGas":["0x7","0x7","0x7"],"gasUsedRatio":[0.0,0.0]})"}},
                         [chain](const Call& call) -> Result { return fee_history(*chain, call); }});
}

}  // namespace quern::rpc::methods
