// A sum of money that may be negative. Plain values.
#pragma once

#include <string>

#include "base/uint256.h"

namespace quern::rpc {

// What came and what went. Each side stays below 2^256: what there is of money fits that.
class Balance {
public:
    void add(const Uint256& grains) { came_ += grains; }
    void take(const Uint256& grains) { went_ += grains; }
    void add(const Balance& other) { came_ += other.came_, went_ += other.went_; }
    void take(const Balance& other) { came_ += other.went_, went_ += other.came_; }
    [[nodiscard]] bool is_zero() const { return came_ == went_; }
    // In grains, decimal, with a sign when it is negative: "-1500".
    [[nodiscard]] std::string grains() const;
    [[nodiscard]] std::string qrn() const;

private:
    [[nodiscard]] bool is_negative() const { return came_ < went_; }
    [[nodiscard]] Uint256 size() const { return is_negative() ? went_ - came_ : came_ - went_; }

    Uint256 came_;
    Uint256 went_;
};

}  // namespace quern::rpc
