#include "node/chain/leaf_timer.h"

#include "base/big_endian.h"
#include "chain/store/block_store.h"
#include "chain/store/tables.h"

namespace quern::node {
namespace {
constexpr std::size_t kMaxKnown = 4096;  // older ones are read from the table
std::string name_of(std::uint64_t dispute) { return "leaf_ns/" + std::to_string(dispute); }
}  // namespace

void LeafTimer::leaf_begins(std::uint64_t) { begun_ = std::chrono::steady_clock::now(); }

void LeafTimer::leaf_ended(std::uint64_t dispute) {
    const auto spent = std::chrono::steady_clock::now() - begun_;
    pending_[dispute] = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
}

void LeafTimer::write(const LeafTimes& times, chain::store::WriteBatch& batch) {
    for (const auto& [dispute, nanoseconds] : times) chain::store::put_meta(batch, name_of(dispute), be64(nanoseconds));
}

void LeafTimer::publish(const LeafTimes& times) {
    const MutexLock lock(mutex_);
    for (const auto& [dispute, nanoseconds] : times) known_[dispute] = nanoseconds;
    while (known_.size() > kMaxKnown) known_.erase(known_.begin());
}

std::optional<double> LeafTimer::microseconds(const chain::store::Reader& reader, std::uint64_t dispute) const {
    {
        const MutexLock lock(mutex_);
        if (const auto found = known_.find(dispute); found != known_.end())
            return static_cast<double>(found->second) / 1000.0;
    }
    const auto stored = chain::store::get_meta(reader, name_of(dispute));
    if (!stored || !*stored || (*stored)->size() != 8) return std::nullopt;
    return static_cast<double>(from_big_endian(**stored)) / 1000.0;
}

}  // namespace quern::node
