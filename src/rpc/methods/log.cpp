// eth_getLogs.
#include <algorithm>

#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {
namespace {

using chain::api::BlockSelector;
using chain::types::Address;

constexpr std::uint64_t kMaxBlocks = 10'000;
constexpr std::size_t kMaxLogs = 10'000;
constexpr std::size_t kMaxTopics = 4;
constexpr std::size_t kMaxAlternatives = 1'000;

struct Filter {
    std::vector<Address> addresses;           // empty: any
    std::vector<std::vector<Hash32>> topics;  // by position; an empty list: any
};

Expected<Filter> read_filter(const json::Value& object) {
    Filter filter;
    if (const json::Value* address = object.find("address"); address != nullptr && !address->is_null()) {
        if (address->is_array()) {
            if (address->size() > kMaxAlternatives) return fail("value.too_many", "addresses");
            for (const json::Value& item : address->items()) {
                QUERN_TRY(const Address one, read_address(item));
                filter.addresses.push_back(one);
            }
        } else {
            QUERN_TRY(const Address one, read_address(*address));
            filter.addresses.push_back(one);
        }
    }
    const json::Value* topics = object.find("topics");
    if (topics == nullptr || topics->is_null()) return filter;
    if (!topics->is_array()) return fail("value.wrong_type", "topics must be an array");
    if (topics->size() > kMaxTopics) return fail("value.too_many", "topics");
    for (const json::Value& position : topics->items()) {
        std::vector<Hash32> alternatives;
        bool any = position.is_null();
        if (position.is_array()) {
            if (position.size() > kMaxAlternatives) return fail("value.too_many", "topics");
            any = position.size() == 0;
            for (const json::Value& item : position.items()) {
                if (item.is_null()) {
                    any = true;
                    continue;
                }
                QUERN_TRY(const Hash32 topic, read_hash(item));
                alternatives.push_back(topic);
            }
        } else if (!any) {
            QUERN_TRY(const Hash32 topic, read_hash(position));
            alternatives.push_back(topic);
        }
        if (any) alternatives.clear();
        filter.topics.push_back(std::move(alternatives));
    }
    return filter;
}

bool matches(const Filter& filter, const chain::types::Log& log) {
    const auto among = [](const auto& list, const auto& value) {
        return std::find(list.begin(), list.end(), value) != list.end();
    };
    if (!filter.addresses.empty() && !among(filter.addresses, log.address)) return false;
    if (log.topics.size() < filter.topics.size()) return false;
    for (std::size_t i = 0; i < filter.topics.size(); ++i)
        if (!filter.topics[i].empty() && !among(filter.topics[i], log.topics[i])) return false;
    return true;
}

bool may_match(const Filter& filter, const chain::types::Bloom& bloom) {
    const auto any_in_bloom = [&](const auto& list) {
        return list.empty() || std::any_of(list.begin(), list.end(), [&](const auto& value) {
                   return chain::types::bloom_may_contain(bloom, value.view());
               });
    };
    return any_in_bloom(filter.addresses) && std::all_of(filter.topics.begin(), filter.topics.end(), any_in_bloom);
}

// Adds the block's matching logs; false when there are too many.
bool collect(const chain::api::ChainReader& chain, const chain::api::BlockView& view, const Filter& filter,
             json::Array& logs) {
    const auto& header = view.block.header;
    if (!may_match(filter, header.logs_bloom)) return true;
    LogPlace place{view.hash, header.number, header.timestamp, {}, 0, 0};
    const auto receipts = chain.receipts(header.number);
    for (std::size_t i = 0; i < receipts.size() && i < view.block.transactions.size(); ++i) {
        if (receipts[i].logs.empty()) continue;
        place.transaction_hash = chain::types::transaction_hash(view.block.transactions[i]);
        place.transaction_index = i;
        for (const auto& log : receipts[i].logs) {
            if (matches(filter, log)) {
                if (logs.size() == kMaxLogs) return false;
                logs.push_back(log_json(log, place));
            }
            ++place.log_index;
        }
    }
    return true;
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

Result get_logs(const chain::api::ChainReader& chain, const json::Value& object) {
    const auto filter = read_filter(object);
    if (!filter) return rpc_fail(kInvalidParams, "invalid argument 0: " + filter.error().to_string());
    const std::string too_many = "query returned more than " + std::to_string(kMaxLogs) + " results";
    json::Array logs;
    if (const json::Value* hash = object.find("blockHash"); hash != nullptr && !hash->is_null()) {
        if (object.find("fromBlock") != nullptr || object.find("toBlock") != nullptr)
            return rpc_fail(kInvalidParams,
                            "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other");
        const auto wanted = read_hash(*hash);
        if (!wanted) return rpc_fail(kInvalidParams, "invalid argument 0: " + wanted.error().detail);
        const auto view = chain.block({BlockSelector::Kind::hash, 0, *wanted});
        if (!view) return rpc_fail(kServerError, "unknown block");
        if (!collect(chain, *view, *filter, logs)) return rpc_fail(kLimitExceeded, too_many);
        return logs;
    }
    const auto from = range_end(chain, object.find("fromBlock"));
    if (!from) return tl::unexpected<RpcError>(from.error());
    const auto to = range_end(chain, object.find("toBlock"));
    if (!to) return tl::unexpected<RpcError>(to.error());
    if (*from > *to) return rpc_fail(kInvalidParams, "invalid block range params");
    const std::uint64_t last = std::min(*to, chain.head_number());
    if (*from > last) return logs;
    if (last - *from >= kMaxBlocks)
        return rpc_fail(kLimitExceeded, "block range too large, at most " + std::to_string(kMaxBlocks) + " blocks");
    for (std::uint64_t number = *from; number <= last; ++number) {
        const auto view = chain.block({BlockSelector::Kind::number, number, {}});
        if (view && !collect(chain, *view, *filter, logs)) return rpc_fail(kLimitExceeded, too_many);
    }
    return logs;
}

}  // namespace

Status add_log_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"eth_getLogs",
         "The logs (events) that match a filter, in order. At most 10,000 blocks and 10,000 logs a call.",
         {{"filter", Kind::object, true,
           "fromBlock, toBlock (latest when left out) or blockHash; address: one or several; topics: per position "
           "null, "
           "one or several"}},
         {"array", "the logs"},
         {{kLimitExceeded, "block range too large; query returned more than 10000 results"},
          {kInvalidParams, "invalid block range params"}},
         {{R"([{"fromBlock":"0x1","toBlock":"latest","address":"0x0000000000000000000000000000000000005103"}])", "[]"}},
         [chain = backend.chain](const Call& call) -> Result { return get_logs(*chain, call.value(0)); }});
}

}  // namespace quern::rpc::methods
