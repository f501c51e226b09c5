// Native objects in results: the records' own fields (chain/types/json_codec.h) with readable companions ("stateName"),
// and reading them out of a state. Pure; thread-safe.
#pragma once

#include <bit>

#include "chain/api/chain_reader.h"
#include "chain/api/market_guide.h"
#include "chain/types/json_codec.h"
#include "chain/types/native_objects.h"
#include "rpc/error.h"

namespace quern::rpc::methods {

using Reports = std::vector<chain::types::VerifierReport>;
// A claim with the reports of those who were drawn for it, by place, and its custodians.
struct ShownClaim {
    chain::types::Claim claim;
    Reports reports;
    std::optional<chain::types::Custody> custody;
};
// A task with its claims that are not settled, after the end the last one: state none where there is none.
struct TaskClaims {
    chain::types::Task task;
    ShownClaim claim;
    ShownClaim next;
};
// The price of a task: work units as numbers or quantities, amounts in grains.
[[nodiscard]] json::Value estimate_json(const chain::api::TaskEstimate& estimate);
// With `claim` and `nextClaim`, null where there is none.
[[nodiscard]] json::Value task_json(const TaskClaims& shown, const chain::api::MarketGuide& guide);
// With `reports` and `custody`.
[[nodiscard]] json::Value claim_json(const chain::types::Task& task, const ShownClaim& shown);
[[nodiscard]] json::Value reports_json(const Reports& reports);
// Null where there are no custodians.
[[nodiscard]] json::Value custody_json(const std::optional<chain::types::Custody>& custody);
[[nodiscard]] json::Value role_bond_json(const chain::types::RoleBond& bond);
// By name ("solver") or number.
[[nodiscard]] std::optional<chain::types::Role> role_from(const json::Value& value);
// An f32 given as its bits.
[[nodiscard]] inline double f32_value(std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }

// The object with this id (types::key_of); nullopt when there is none. An object that does not decode is an error of
// the store.
template <chain::types::Record T, class... Id>
[[nodiscard]] Expected<std::optional<T>> read_object(const chain::api::StateView& state, const Id&... id) {
    const auto bytes = state.native(chain::types::key_of<T>(id...));
    if (!bytes) return std::optional<T>();
    QUERN_TRY(auto record, chain::types::decode_record<T>(*bytes));
    return std::optional<T>(std::move(record));
}

[[nodiscard]] Expected<ShownClaim> with_reports(const chain::api::StateView& state, chain::types::Claim claim);
[[nodiscard]] Expected<TaskClaims> with_claims(const chain::api::StateView& state, chain::types::Task task);

inline constexpr std::size_t kScanPage = 256;
inline constexpr std::size_t kMaxScan = 200'000;  // objects looked at in one call

// Visits objects with ids from `start` on in ascending order; stops when `visit` says false or after kMaxScan. Returns
// the id to go on with, or nullopt at the end.
template <chain::types::Record T, class Visit>
[[nodiscard]] Expected<std::optional<std::uint64_t>> scan_objects(const chain::api::StateView& state,
                                                                  std::uint64_t start, Visit&& visit) {
    const Bytes all = chain::types::prefix_of<T>();
    std::size_t seen = 0;
    for (;;) {
        const auto page = state.native_range(all, chain::types::key_of<T>(start), kScanPage);
        for (const auto& [key, value] : page) {
            QUERN_TRY(const T record, chain::types::decode_record<T>(value));
            if (seen++ == kMaxScan || !visit(record)) return std::optional<std::uint64_t>(record.id);
            start = record.id + 1;
        }
        if (page.size() < kScanPage) return std::optional<std::uint64_t>();
    }
}

}  // namespace quern::rpc::methods
