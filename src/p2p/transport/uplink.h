// Learns how fast bulk may be sent without building a queue in front of the uplink: the rate grows while it is used and
// the round trip stays near its least, and shrinks when the round trip grows (as LEDBAT, RFC 6817, does per flow). The
// node's one bulk bucket takes its rate from here. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quern::p2p::transport {

inline constexpr std::uint64_t kMinUplinkRate = 64U << 10;  // bytes/s
inline constexpr std::uint64_t kMaxUplinkRate = std::uint64_t{2} << 30;
inline constexpr std::uint64_t kStartUplinkRate = 8U << 20;
inline constexpr std::uint64_t kUplinkDelayTargetUs = 20'000;   // of queueing that bulk may cause
inline constexpr std::uint64_t kBaseRttWindowUs = 120'000'000;  // after which a longer least round trip is believed

class UplinkRate {
public:
    // fixed != 0: no learning.
    explicit UplinkRate(std::uint64_t fixed = 0) : fixed_(fixed) {}

    // `rtt_us`: the newest round trip of a control connection; `sent`: bulk bytes since the last call. Once for
    // each new measurement.
    void update(std::uint64_t now_us, std::uint64_t rtt_us, std::uint64_t sent) {
        if (last_us_ == 0 || rtt_us < base_us_ || now_us - base_at_us_ > kBaseRttWindowUs) {
            base_us_ = rtt_us;
            base_at_us_ = now_us;
        }
        const std::uint64_t elapsed = last_us_ == 0 ? 0 : now_us - last_us_;
        last_us_ = now_us;
        if (elapsed == 0) return;
        if (rtt_us > base_us_ + kUplinkDelayTargetUs) {
            // Not below 85 % of what went out: the link carries about that.
            const std::uint64_t delivered = sent * 1'000'000 / elapsed;
            rate_ = std::max(rate_ - rate_ / 8, std::min(rate_, delivered - delivered * 15 / 100));
            slow_start_ = false;
        } else if (sent * 1'000'000 / elapsed > rate_ / 2) {  // the limit is being used
            rate_ += slow_start_ ? rate_ : rate_ / 8;
        }
        rate_ = std::clamp(rate_, kMinUplinkRate, kMaxUplinkRate);
    }
    [[nodiscard]] std::uint64_t bytes_per_second() const { return fixed_ != 0 ? fixed_ : rate_; }
    // A bucket's depth for this rate: 20 ms, at least one bulk record.
    [[nodiscard]] std::uint64_t burst() const { return std::max<std::uint64_t>(bytes_per_second() / 50, 64U << 10); }

private:
    std::uint64_t fixed_;
    std::uint64_t rate_ = kStartUplinkRate;
    bool slow_start_ = true;
    std::uint64_t base_us_ = 0;
    std::uint64_t base_at_us_ = 0;
    std::uint64_t last_us_ = 0;
};

}  // namespace quern::p2p::transport
