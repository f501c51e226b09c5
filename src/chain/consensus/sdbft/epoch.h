// Epochs, their committees and the masters of their views. An epoch is a run of `epoch_length` heights (the genesis
// block is height 0 of epoch 0); its committee was frozen two epochs before, its seed is the beacon of a block of the
// epoch before, two thirds in: after the weights were frozen. Pure; thread-safe.
#pragma once

#include <optional>

#include "chain/consensus/committee.h"
#include "chain/consensus/terms.h"

namespace quern::chain::consensus::sdbft {

struct EpochSetup {
    std::uint64_t epoch = 0;
    Committee committee;
    Hash32 next_committee_hash;  // of epoch + 1, which headers of this epoch commit to
    Hash32 seed;
    // The next epoch's members, of whom messages that come early are kept; without them none are.
    std::optional<Committee> next_committee = std::nullopt;
};

class EpochHeights {
public:
    // length >= 1.
    explicit EpochHeights(std::uint64_t length) : length_(length == 0 ? 1 : length) {}
    [[nodiscard]] std::uint64_t epoch_of(std::uint64_t height) const { return height / length_; }
    [[nodiscard]] std::uint64_t first(std::uint64_t epoch) const { return epoch * length_; }
    [[nodiscard]] std::uint64_t last(std::uint64_t epoch) const { return epoch * length_ + (length_ - 1); }
    [[nodiscard]] bool is_last(std::uint64_t height) const { return height % length_ == length_ - 1; }
    // The height whose block's beacon is the seed of epoch + 1.
    [[nodiscard]] std::uint64_t seed_height(std::uint64_t epoch) const { return first(epoch) + 2 * length_ / 3; }

private:
    std::uint64_t length_;
};

// Index of the member that proposes in `view`: stake-weighted by SHA-256(seed || view (8)).
[[nodiscard]] std::size_t master_of(const EpochSetup& epoch, std::uint64_t view);

}  // namespace quern::chain::consensus::sdbft
