// What consensus itself checks of a proposed block before the executor sees it: numbers, views, times, committees, the
// beacon's proof, the parent's certificate. Roots and transactions are execution's. Pure; thread-safe.
#pragma once

#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/hooks.h"
#include "chain/consensus/sdbft/keys.h"

namespace quern::chain::consensus::sdbft {

// The parts of a block that consensus looks at.
struct BlockInfo {
    Hash32 hash;
    Hash32 parent;
    std::uint64_t number = 0;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;  // in which it was first proposed
    std::uint64_t timestamp_ms = 0;
    Hash32 beacon;
    Bytes vrf_proof;
    Hash32 parent_certificate_hash;
    Hash32 committee_hash;
    Hash32 next_committee_hash;
    Bytes parent_certificate;  // of the body
};
[[nodiscard]] Expected<BlockInfo> read_block(BytesView encoded);
// What the header alone tells, whatever the body is: it costs little, however much a sender has put behind it.
struct BlockHead {
    Hash32 hash;
    Hash32 parent;
    std::uint64_t number = 0;
    std::uint64_t epoch = 0;
};
[[nodiscard]] Expected<BlockHead> read_head(BytesView encoded);
[[nodiscard]] Tip tip_of(const BlockInfo& info);

// What the header alone decides, given the epoch that the block claims to be in: nothing of a block is kept before.
// Errors: header.wrong_epoch, header.wrong_view, header.wrong_number, header.wrong_committee, header.wrong_certificate.
[[nodiscard]] Status check_header(const BlockInfo& block, const EpochSetup& epoch, const EpochHeights& heights,
                                  const Hooks& hooks = {});
// The rest, given the parent. The parent's certificate is checked by the core. Errors: header.wrong_number,
// header.wrong_parent, header.wrong_view, header.wrong_timestamp, header.wrong_beacon, vrf.*.
[[nodiscard]] Status check_proposed(const BlockInfo& block, const Tip& parent, const EpochSetup& epoch,
                                    const Scheme& scheme, const Hooks& hooks = {});

}  // namespace quern::chain::consensus::sdbft
