#include "node/net/range_sync.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;

void RangeSync::ask(std::uint64_t first, const std::optional<Bytes20>& peer) {
    p2p::Network* const network = network_;
    if (network == nullptr) return;
    std::optional<Bytes20> chosen = peer;
    if (!chosen || parts_.peers.finalized_of(*chosen) < first) chosen = parts_.peers.pick(first);
    if (!chosen) return;
    {
        const std::lock_guard lock(mutex_);
        if (in_flight_) return;
        in_flight_ = true;
    }
    network->request_range(
        *chosen, {first, messages::kMaxRangeBlocks, kMaxServedRangeBytes}, kRangeTimeoutMs,
        [this, first, asked = *chosen](Expected<messages::Range> range) { answered(first, asked, std::move(range)); });
}

void RangeSync::consider() {
    const std::uint64_t target = parts_.peers.finalized();
    std::uint64_t first = 0;
    {
        const std::lock_guard lock(mutex_);
        if (in_flight_ || !is_syncing(target)) return;
        if (was_syncing_ && parts_.clock.monotonic_ms() < moved_ms_ + kSyncStalledMs) return;
        if (!was_syncing_) {
            was_syncing_ = true;
            first_ = reported_number_ = tip_;
            began_ms_ = reported_ms_ = parts_.clock.monotonic_ms();
            log::info(log::Category::node, "catching up height={} target={}", tip_, target);
        }
        moved_ms_ = parts_.clock.monotonic_ms();
        first = tip_ + 1;
    }
    ask(first, std::nullopt);
}

void RangeSync::committed(std::uint64_t number) {
    const std::uint64_t target = parts_.peers.finalized();
    const std::lock_guard lock(mutex_);
    tip_ = number;
    moved_ms_ = parts_.clock.monotonic_ms();
    if (!was_syncing_) return;
    const auto rate = [this](std::uint64_t from, std::uint64_t since) {
        return static_cast<double>(tip_ - from) * 1000.0 /
               static_cast<double>(std::max<std::uint64_t>(1, moved_ms_ - since));
    };
    if (!is_syncing(target)) {
        was_syncing_ = false;
        log::info(log::Category::node, "caught up height={} blocks={} seconds={:.1f} blocks_per_s={:.0f}", tip_,
                  tip_ - first_, static_cast<double>(moved_ms_ - began_ms_) / 1000.0, rate(first_, began_ms_));
    } else if (moved_ms_ >= reported_ms_ + kSyncReportMs) {
        log::info(log::Category::node, "catching up height={} target={} blocks_per_s={:.0f}", tip_, target,
                  rate(reported_number_, reported_ms_));
        reported_ms_ = moved_ms_;
        reported_number_ = tip_;
    }
}

RangeSync::Progress RangeSync::progress() const {
    const std::uint64_t target = parts_.peers.finalized();
    const std::lock_guard lock(mutex_);
    return {is_syncing(target), was_syncing_ ? first_ : tip_, tip_, std::max(target, tip_)};
}

void RangeSync::answered(std::uint64_t first, const Bytes20& peer, Expected<messages::Range> range) {
    {
        const std::lock_guard lock(mutex_);
        in_flight_ = false;
    }
    if (!range) {
        log::debug(log::Category::node, "no range first={} peer={} reason={}", first, to_hex0x(peer),
                   range.error().to_string());
        return;
    }
    std::size_t bytes = 0;
    for (const auto& block : range->blocks) bytes += block.block.size() + block.certificate.size();
    (void)parts_.work.post(
        bytes, [this, first, peer, range = std::move(*range)]() mutable { deliver(first, peer, std::move(range)); });
}

void RangeSync::deliver(std::uint64_t first, const Bytes20& peer, messages::Range range) {
    const auto id = parts_.peers.id_of(peer);
    if (!id) return;
    auto found = epoch_range(std::move(range), first, parts_.peers.finalized_of(peer), heights_);
    if (!found || found->count == 0) {
        log::debug(log::Category::node, "useless range first={} peer={} reason={}", first, to_hex0x(peer),
                   found ? "no finalization in it" : found.error().to_string());
        if (auto* const network = network_.load())
            network->report(peer, found ? p2p::Offence::useless : p2p::Offence::malformed);
        return;
    }
    (void)parts_.consensus.receive(*id, encode(sdbft::Message(std::move(found->answer))));
}

}  // namespace quern::node
