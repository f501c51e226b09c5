// eth_getLogs.
#include <algorithm>
#include <map>

#include "base/mutex.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"
#include "rpc/methods/log_filter.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
using chain::api::BlockSelector;

constexpr std::uint64_t kMaxBlocks = 10'000;
constexpr std::size_t kMaxLogs = 10'000;
constexpr std::size_t kMaxLogBytes = std::size_t{8} << 20;  // data of the logs of one answer
constexpr std::size_t kMaxCachedBlooms = 65'536;            // 256 bytes each, but for blocks without logs

// The filters of blocks that were looked at lately: a block never changes, and most hold nothing that is searched for.
// Thread-safe.
class BloomCache {
public:
    std::shared_ptr<const types::Bloom> find(std::uint64_t number) const {
        const MutexLock lock(mutex_);
        const auto found = blooms_.find(number);
        return found == blooms_.end() ? nullptr : found->second;
    }
    void put(std::uint64_t number, const types::Bloom& bloom) {
        auto kept = bloom.is_zero() ? none_ : std::make_shared<const types::Bloom>(bloom);
        const MutexLock lock(mutex_);
        blooms_[number] = std::move(kept);
        if (blooms_.size() > kMaxCachedBlooms) blooms_.erase(blooms_.begin());
    }

private:
    const std::shared_ptr<const types::Bloom> none_ = std::make_shared<const types::Bloom>();
    mutable Mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<const types::Bloom>> blooms_ QUERN_GUARDED_BY(mutex_);
};

struct Found {
    json::Array logs;
    std::size_t bytes = 0;
};

// Adds the block's matching logs; false when there are too many.
bool collect(const chain::api::ChainReader& chain, const chain::api::BlockView& view, const LogFilter& filter,
             Found& found) {
    if (!may_match(filter, view.block.header.logs_bloom)) return true;
    return visit_logs(view, chain.receipts(view.block.header.number), filter,
                      [&](const types::Log& log, const LogPlace& place) {
                          found.bytes += log.data.size();
                          if (found.logs.size() == kMaxLogs || found.bytes > kMaxLogBytes) return false;
                          found.logs.push_back(log_json(log, place));
                          return true;
                      });
}

tl::expected<std::uint64_t, RpcError> range_end(const chain::api::ChainReader& chain, const json::Value* value) {
    if (value == nullptr || value->is_null()) return chain.head_number();
    const auto selector = read_block(*value);
    if (!selector) return rpc_fail(kInvalidParams, "invalid argument 0: " + selector.error().detail);
    switch (selector->kind) {
        case BlockSelector::Kind::earliest:
            return 0;
        case BlockSelector::Kind::number:
            return selector->number;
        case BlockSelector::Kind::hash:
            return rpc_fail(kInvalidParams, "a range is given by numbers or tags");
        default:
            return chain.head_number();
    }
}

Result get_logs(const chain::api::ChainReader& chain, BloomCache& blooms, const Call& call) {
    const json::Value& object = call.value(0);
    const auto filter = read_log_filter(object);
    if (!filter) return rpc_fail(kInvalidParams, "invalid argument 0: " + filter.error().to_string());
    const std::string too_many = "query returned more than " + std::to_string(kMaxLogs) + " results";
    Found found;
    if (const json::Value* hash = object.find("blockHash"); hash != nullptr && !hash->is_null()) {
        if (object.find("fromBlock") != nullptr || object.find("toBlock") != nullptr)
            return rpc_fail(kInvalidParams,
                            "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other");
        const auto wanted = read_hash(*hash);
        if (!wanted) return rpc_fail(kInvalidParams, "invalid argument 0: " + wanted.error().detail);
        const auto view = chain.block({BlockSelector::Kind::hash, 0, *wanted});
        if (!view) return rpc_fail(kServerError, "unknown block");
        if (!collect(chain, *view, *filter, found)) return rpc_fail(kLimitExceeded, too_many);
        return std::move(found.logs);
    }
    const auto from = range_end(chain, object.find("fromBlock"));
    if (!from) return tl::unexpected<RpcError>(from.error());
    const auto to = range_end(chain, object.find("toBlock"));
    if (!to) return tl::unexpected<RpcError>(to.error());
    if (*from > *to) return rpc_fail(kInvalidParams, "invalid block range params");
    const std::uint64_t last = std::min(*to, chain.head_number());
    if (*from > last) return std::move(found.logs);
    if (last - *from >= kMaxBlocks)
        return rpc_fail(kLimitExceeded, "block range too large, at most " + std::to_string(kMaxBlocks) + " blocks");
    for (std::uint64_t number = *from; number <= last; ++number) {
        if (call.is_cancelled()) return timed_out();
        const auto bloom = blooms.find(number);
        if (bloom && !may_match(*filter, *bloom)) continue;
        const auto view = chain.block({BlockSelector::Kind::number, number, {}});
        if (!view) continue;
        if (!bloom) blooms.put(number, view->block.header.logs_bloom);
        if (!collect(chain, *view, *filter, found)) return rpc_fail(kLimitExceeded, too_many);
    }
    return std::move(found.logs);
}

}  // namespace

Status add_log_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"eth_getLogs",
         "The logs (events) that match a filter, in order. At most 10,000 blocks, 10,000 logs and 8 MiB of their data "
         "a call.",
         {{"filter", Kind::object, true,
           "fromBlock, toBlock (latest when left out) or blockHash; address: one or several; topics: per position "
           "null, "
           "one or several"}},
         {"array", "the logs"},
         {{kLimitExceeded, "block range too large; query returned more than 10000 results"},
          {kTimedOut, "request timed out"},
          {kInvalidParams, "invalid block range params"}},
         {{R"([{"fromBlock":"0x1","toBlock":"latest","address":"0x0000000000000000000000000000000000005103"}])", "[]"}},
         [chain = backend.chain, blooms = std::make_shared<BloomCache>()](const Call& call) -> Result {
             return get_logs(*chain, *blooms, call);
         }});
}

}  // namespace quern::rpc::methods
