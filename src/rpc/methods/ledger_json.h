// What the ledger tells, in results: events, places, and amounts that may be negative. Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "base/uint256.h"
#include "chain/api/ledger.h"

namespace quern::rpc::methods {

// Grains as QRN, without trailing zeros: "1.5".
[[nodiscard]] std::string in_qrn(const Uint256& grains);

// A sum of what came and what went. Each side stays below 2^256: what there is of money fits that.
class Balance {
public:
    void add(const Uint256& grains) { came_ += grains; }
    void take(const Uint256& grains) { went_ += grains; }
    void add(const Uint256& grains, chain::api::Movement::Sign sign);
    void add(const Balance& other) { came_ += other.came_, went_ += other.went_; }
    void take(const Balance& other) { came_ += other.went_, went_ += other.came_; }
    [[nodiscard]] bool is_zero() const { return came_ == went_; }
    // In grains, decimal, with a sign when it is negative: "-1500".
    [[nodiscard]] std::string grains() const;
    [[nodiscard]] std::string qrn() const;

private:
    Uint256 came_;
    Uint256 went_;
};

// block, timestamp, transaction, from, kind: the first members of whatever happened there.
[[nodiscard]] json::Value place_json(const chain::api::Place& place);
// event, task, dispute (each null where it names none) and the event's fields.
void set_event(json::Value& object, const chain::api::ToldEvent& event);
[[nodiscard]] json::Value holdings_json(const chain::api::Holdings& holdings);

}  // namespace quern::rpc::methods
