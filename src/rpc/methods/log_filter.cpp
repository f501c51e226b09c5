#include "rpc/methods/log_filter.h"

#include <algorithm>

#include "rpc/values.h"

namespace quern::rpc::methods {
namespace {

using chain::types::Address;

constexpr std::size_t kMaxTopics = 4;
constexpr std::size_t kMaxAlternatives = 1'000;

BloomBits bits_of(BytesView value) {
    chain::types::Bloom bloom;
    chain::types::bloom_add(bloom, value);
    BloomBits bits{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < 8 * chain::types::Bloom::kSize && count < bits.size(); ++i)
        if ((bloom.data[i / 8] >> (i % 8) & 1) != 0) bits[count++] = static_cast<std::uint16_t>(i);
    while (count < bits.size()) bits[count++] = bits[0];  // two of them were the same
    return bits;
}

template <class Value>
void finish(LogFilter::Alternatives<Value>& list) {
    std::sort(list.values.begin(), list.values.end());
    list.values.erase(std::unique(list.values.begin(), list.values.end()), list.values.end());
    list.values.shrink_to_fit();
    list.bits.reserve(list.values.size());
    for (const Value& value : list.values) list.bits.push_back(bits_of(value.view()));
}

}  // namespace

std::size_t LogFilter::bytes() const {
    const auto of = [](const auto& list) {
        return list.values.capacity() * sizeof(list.values[0]) + list.bits.capacity() * sizeof(BloomBits);
    };
    std::size_t bytes = of(addresses);
    for (const auto& list : topics) bytes += sizeof(list) + of(list);
    return bytes;
}

Expected<LogFilter> read_log_filter(const json::Value& object) {
    LogFilter filter;
    if (const json::Value* address = object.find("address"); address != nullptr && !address->is_null()) {
        if (address->is_array()) {
            if (address->size() > kMaxAlternatives) return fail("value.too_many", "addresses");
            for (const json::Value& item : address->items()) {
                QUERN_TRY(const Address one, read_address(item));
                filter.addresses.values.push_back(one);
            }
        } else {
            QUERN_TRY(const Address one, read_address(*address));
            filter.addresses.values.push_back(one);
        }
    }
    finish(filter.addresses);
    const json::Value* topics = object.find("topics");
    if (topics == nullptr || topics->is_null()) return filter;
    if (!topics->is_array()) return fail("value.wrong_type", "topics must be an array");
    if (topics->size() > kMaxTopics) return fail("value.too_many", "topics");
    for (const json::Value& position : topics->items()) {
        LogFilter::Alternatives<Hash32> alternatives;
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
                alternatives.values.push_back(topic);
            }
        } else if (!any) {
            QUERN_TRY(const Hash32 topic, read_hash(position));
            alternatives.values.push_back(topic);
        }
        if (any) alternatives.values.clear();
        finish(alternatives);
        filter.topics.push_back(std::move(alternatives));
    }
    return filter;
}

bool matches(const LogFilter& filter, const chain::types::Log& log) {
    const auto among = [](const auto& list, const auto& value) {
        return list.values.empty() || std::binary_search(list.values.begin(), list.values.end(), value);
    };
    if (!among(filter.addresses, log.address)) return false;
    if (log.topics.size() < filter.topics.size()) return false;
    for (std::size_t i = 0; i < filter.topics.size(); ++i)
        if (!among(filter.topics[i], log.topics[i])) return false;
    return true;
}

bool may_match(const LogFilter& filter, const chain::types::Bloom& bloom) {
    const auto any_in_bloom = [&](const auto& list) {
        return list.bits.empty() || std::any_of(list.bits.begin(), list.bits.end(), [&](const BloomBits& bits) {
                   return std::all_of(bits.begin(), bits.end(),
                                      [&](std::uint16_t bit) { return (bloom.data[bit / 8] >> (bit % 8) & 1) != 0; });
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
