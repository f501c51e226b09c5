#include "p2p/transport/memory_ledger.h"

#include <algorithm>
#include <map>

#include "base/ensure.h"

namespace quern::p2p::transport {
namespace {

constexpr std::uint64_t kTrustedMs = 3'600'000;  // connected for so long, a holder weighs a sixtieth

}  // namespace

MemoryLedger::Holder::Holder(MemoryLedger& ledger) : ledger_(ledger) { ledger_.holders_.insert(this); }

MemoryLedger::Holder::~Holder() {
    release(bytes_);
    ledger_.holders_.erase(this);
}

void MemoryLedger::Holder::set_fixed(bool fixed) {
    if (fixed_ == fixed) return;
    fixed_ = fixed;
    if (fixed)
        deduct(ledger_.strangers_, bytes_);
    else
        ledger_.strangers_ += bytes_;
}

void MemoryLedger::Holder::release(std::size_t bytes) {
    deduct(bytes_, bytes);
    deduct(ledger_.used_, bytes);
    if (!fixed_) deduct(ledger_.strangers_, bytes);
}

std::size_t MemoryLedger::Holder::room() const { return share() - std::min(bytes_, share()); }

bool MemoryLedger::fits(bool fixed, std::size_t bytes) const {
    if (used_ > limits_.total || bytes > limits_.total - used_) return false;
    const std::size_t open = limits_.total - std::min(limits_.for_fixed, limits_.total);
    return fixed || (strangers_ <= open && bytes <= open - strangers_);
}

MemoryLedger::Holder* MemoryLedger::heaviest(bool fixed, const Holder& asking, std::size_t bytes,
                                             std::uint64_t now_ms) const {
    struct Network {
        double weight = 0;
        double most = 0;
        Holder* heaviest = nullptr;
    };
    std::map<std::string_view, Network> networks;
    for (Holder* each : holders_) {
        if (each->fixed_ != fixed) continue;
        const std::size_t held = each->bytes_ + (each == &asking ? bytes : 0);
        if (held == 0) continue;
        const std::uint64_t since = each->bytes_ == 0 ? now_ms : std::min(each->oldest_ms(), now_ms);
        const std::uint64_t connected = std::min(now_ms - std::min(each->since_ms_, now_ms), kTrustedMs);
        // A second for everybody, so that size decides among those that have just come.
        const std::uint64_t trusted = kTrustedMs / 60 + connected;
        const double weight =
            static_cast<double>(held) * static_cast<double>(now_ms - since + 1'000) / static_cast<double>(trusted);
        Network& network = networks[each->network_];
        network.weight += weight;
        if (weight <= network.most) continue;
        network.most = weight;
        network.heaviest = each;
    }
    const auto most = std::max_element(networks.begin(), networks.end(),
                                       [](const auto& a, const auto& b) { return a.second.weight < b.second.weight; });
    return most == networks.end() ? nullptr : most->second.heaviest;
}

Status MemoryLedger::Holder::reserve(std::size_t bytes, std::uint64_t now_ms) {
    if (bytes > room())
        return busy("memory.share_full", std::to_string(bytes_) + " bytes of " + std::to_string(share()));
    while (!ledger_.fits(fixed_, bytes)) {
        Holder* victim = ledger_.heaviest(false, *this, bytes, now_ms);
        if (victim == nullptr && fixed_) victim = ledger_.heaviest(true, *this, bytes, now_ms);
        if (victim == nullptr || victim == this) return busy("memory.full");
        ++ledger_.evictions_;
        victim->give_up();
    }
    bytes_ += bytes;
    ledger_.used_ += bytes;
    if (!fixed_) ledger_.strangers_ += bytes;
    return {};
}

}  // namespace quern::p2p::transport
