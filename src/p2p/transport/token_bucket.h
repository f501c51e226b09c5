// A token bucket: at most `rate` tokens a second on average, `burst` at once. Used for message rates, for handshakes
// and for pacing bulk bytes. Pure: time is an argument, in microseconds of any clock that does not go back. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace quern::p2p::transport {

class TokenBucket {
public:
    // Starts full. rate 0: never refills.
    TokenBucket(std::uint64_t rate, std::uint64_t burst) : rate_(rate), burst_(burst), level_(scaled(burst)) {}

    // Whole tokens there now; 0 while in debt.
    [[nodiscard]] std::uint64_t available(std::uint64_t now_us) {
        refill(now_us);
        return level_ <= 0 ? 0 : static_cast<std::uint64_t>(level_ / kScale);
    }
    [[nodiscard]] bool try_take(std::uint64_t tokens, std::uint64_t now_us) {
        if (available(now_us) < tokens) return false;
        level_ -= scaled(tokens);
        return true;
    }
    // May leave a debt, which later refills pay: for senders that learn a record's size only once it is cut.
    void spend(std::uint64_t tokens) { level_ -= scaled(tokens); }
    // Microseconds until `tokens` are there.
    [[nodiscard]] std::uint64_t wait_us(std::uint64_t tokens, std::uint64_t now_us) {
        refill(now_us);
        const std::int64_t missing = scaled(tokens) - level_;
        if (missing <= 0) return 0;
        if (rate_ == 0) return std::numeric_limits<std::uint64_t>::max();
        return static_cast<std::uint64_t>(missing) / rate_ + 1;
    }
    void set_rate(std::uint64_t rate, std::uint64_t burst, std::uint64_t now_us) {
        refill(now_us);
        rate_ = rate;
        burst_ = burst;
        level_ = std::min(level_, scaled(burst_));
    }
    [[nodiscard]] std::uint64_t rate() const { return rate_; }

private:
    static constexpr std::int64_t kScale = 1'000'000;  // levels are in millionths of a token, so nothing is rounded off
    static std::int64_t scaled(std::uint64_t tokens) {
        return static_cast<std::int64_t>(std::min<std::uint64_t>(tokens, 1'000'000'000'000)) * kScale;
    }
    void refill(std::uint64_t now_us) {
        if (!started_) {
            started_ = true;
            last_us_ = now_us;
        }
        if (now_us <= last_us_) return;
        const std::uint64_t room = static_cast<std::uint64_t>(scaled(burst_) - level_);
        const std::uint64_t elapsed = now_us - last_us_;
        last_us_ = now_us;
        if (rate_ == 0) return;
        level_ = elapsed >= room / rate_ + 1 ? scaled(burst_) : level_ + static_cast<std::int64_t>(elapsed * rate_);
    }

    std::uint64_t rate_;
    std::uint64_t burst_;
    std::int64_t level_;
    std::uint64_t last_us_ = 0;
    bool started_ = false;
};

}  // namespace quern::p2p::transport
