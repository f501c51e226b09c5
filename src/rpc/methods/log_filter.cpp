#include "rpc/methods/log_filter.h"

#include <algorithm>

#include "rpc/values.h"

namespace quern::rpc::methods {
namespace {

using chain::types::Address;

constexpr std::size_t kMaxTopics = 4;
constexpr std::size_t kMaxAlternatives = 1'000;

}  // namespace

Expected<LogFilter> read_log_filter(const json::Value& object) {
    LogFilter filter;
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

bool matches(const LogFilter& filter, const chain::types::Log& log) {
    const auto among = [](const auto& list, const auto& value) {
        return std::find(list.begin(), list.end(), value) != list.end();
    };
    if (!filter.addresses.empty() && !among(filter.addresses, log.address)) return false;
    if (log.topics.size() < filter.topics.size()) return false;
    for (std::size_t i = 0; i < filter.topics.size(); ++i)
        if (!filter.topics[i].empty() && !among(filter.topics[i], log.topics[i])) return false;
    return true;
}

bool may_match(const LogFilter& filter, const chain::types::Bloom& bloom) {
    const auto any_in_bloom = [&](const auto& list) {
        return list.empty() || std::any_of(list.begin(), list.end(), [&](const auto& value) {
                   return chain::types::bloom_may_contain(bloom, value.view());
               });
    };
    return any_in_bloom(filter.addresses) && std::all_of(filter.topics.begin(), filter.topics.end(), any_in_bloom);
}

bool visit_logs(const chain::api::BlockView& view, const std::vector<chain::types::Receipt>& receipts,
                const LogFilter& filter, const std::function<bool(const chain::types::Log&, const LogPlace&)>& visit) {
    const auto& header = view.block.header;
    if (!may_match(filter, header.logs_bloom)) return true;
    LogPlace place{view.hash, header.number, header.timestamp, {}, 0, 0};
    for (std::size_t i = 0; i < receipts.size() && i < view.block.transactions.size(); ++i) {
        if (receipts[i].logs.empty()) continue;
        place.transaction_hash = chain::types::transaction_hash(view.block.transactions[i]);
        place.transaction_index = i;
        for (const auto& log : receipts[i].logs) {
            if (matches(filter, log) && !visit(log, place)) return false;
            ++place.log_index;
        }
    }
    return true;
}

}  // namespace quern::rpc::methods
