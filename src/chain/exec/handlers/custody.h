// Custodians of a claim, from their draw to their pay. Rules: doc/market.md, "Custodians". Used by one thread.
#pragma once

#include "chain/exec/handlers/draw.h"

namespace quern::chain::exec::handlers {

// nullopt: the claim has no custodians.
[[nodiscard]] Expected<std::optional<types::Custody>> load_custody(const Context& context, const types::ClaimId& id);

// What a draw of custodians goes by.
struct CustodyDraw {
    Hash32 beacon;
    std::uint64_t anchor = 0;              // height
    std::uint8_t draws = 0;                // before it
    std::vector<types::Address> excluded;  // beside solver and submitter
};
// As many as the network wants for a claim; none when there are fewer than their quorum.
[[nodiscard]] Expected<std::vector<types::Address>> find_custodians(const Context& context, const LoadedClaim& live,
                                                                    const CustodyDraw& draw);
// Locks what answers for their receipts, and stores them as the claim's custodians, of the draw after `draws` others.
[[nodiscard]] Status take_custodians(Context& context, const LoadedClaim& live,
                                     const std::vector<types::Address>& drawn, std::uint8_t draws);

// The sender's place, if it may answer so now. Errors: kNotDrawn (lifecycle.h), task.wrong_state, verify.not_active,
// verify.already_received.
[[nodiscard]] Expected<std::size_t> place_to_answer(const Context& context, const types::Claim& claim,
                                                    const std::optional<types::Custody>& custody, bool data_ok);
// Its answer, whatever that is, frees its lock.
[[nodiscard]] Status take_receipt(Context& context, types::Custody& custody, std::size_t place, bool data_ok);

enum class Keeping : std::uint8_t { kept, waits, failed };
// Whether enough custodians have what they were drawn for; a claim without custodians needs none. Where a first draw
// fails another one is begun, for which the claim waits in custody.
[[nodiscard]] Expected<Keeping> judge_custodians(Context& context, LoadedClaim& live, bool deadline_passed);
// The second draw, once its beacon is there, with a window of its own. False: there are too few.
[[nodiscard]] Expected<bool> redraw_custodians(Context& context, LoadedClaim& live, types::Custody custody);

// Unlocks what answers for receipts that are not there.
[[nodiscard]] Status release_custodians(Context& context, const types::ClaimId& id);
// The claim has none any more; nothing is locked for it.
void forget_custodians(Context& context, const types::ClaimId& id);
// Out of the escrow of a claim that settles: those who have what they were drawn for.
[[nodiscard]] Status pay_custodians(Context& context, LoadedClaim& live);

}  // namespace quern::chain::exec::handlers
