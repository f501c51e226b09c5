// A small deterministic chain behind the core: real blocks (types::Block) whose state is a counter and a table of
// stakes, so that committees change. Holds speculative states of blocks that are not final and the durable chain, and
// answers queries for both. One per simulated node; single-threaded.
//
//   transaction = op (1) || validator (1) || amount (1) || salt (8)    op 1: pool -> stake, 2: stake -> pool, else:
//   count state root  = SHA-256(parent's root || counter (8) || pool (8) || stake (8)...) transactions root = SHA-256
//   of the transactions, one after another
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sim/sim_chain.h"

namespace quern::sim {

struct LightState {
    std::uint64_t counter = 0;
    std::uint64_t pool = 0;
    std::vector<std::uint64_t> stake;  // by validator
    Hash32 root;
    [[nodiscard]] std::uint64_t total() const;
};

struct LightGenesis {
    std::vector<crypto::PublicKey> keys;  // by validator
    std::vector<std::uint64_t> stake;     // 0: not in the first committees
    std::vector<std::uint64_t> floor;     // stake never falls below
    std::vector<std::uint64_t> ceiling;   // nor rises above
    std::uint64_t pool = 0;
    std::uint64_t epoch_length = 8;
    types::Block block;
    [[nodiscard]] Tip tip() const;
};
[[nodiscard]] types::Block make_genesis_block();

class LightChain final : public SimChain {
public:
    // `range_blocks`: that range() gives at most.
    LightChain(const LightGenesis& genesis, std::size_t range_blocks = sdbft::kMaxBlocksPerRange);

    Expected<Bytes> build(const sdbft::BlockRequest& request, std::vector<Bytes> transactions,
                          std::uint8_t mark) override;
    bool validate(const Hash32& hash, BytesView block) override;
    // Error: light.invalid.
    Expected<std::optional<sdbft::EpochSetup>> commit(const Hash32& hash, BytesView block,
                                                      const std::optional<Certificate>& certificate) override;
    void fail_next_commit(Rng&) override { commit_fails_ = true; }
    Status crash(Rng&) override;
    std::unique_ptr<SimChain> copy_of_disk() const override;

    const Tip& tip() const override { return tips_.back(); }
    Hash32 hash_at(std::uint64_t height) const override { return tips_[height].hash; }
    Bytes tip_certificate() const override;
    sdbft::EpochSetup epoch_setup() const override;
    std::optional<Committee> committee_of(std::uint64_t epoch) const override;
    std::optional<sdbft::BlockAnswer> block(const Hash32& hash) const override;
    std::optional<sdbft::RangeAnswer> range(std::uint64_t first) const override;
    bool body_matches(BytesView block) const override;
    Status audit() const override;

private:
    [[nodiscard]] const LightState* state_of(const Hash32& hash) const;
    [[nodiscard]] Expected<LightState> execute(const LightState& parent, const types::Block& block) const;
    [[nodiscard]] sdbft::EpochSetup epoch_at(std::uint64_t height) const;
    [[nodiscard]] Committee committee_from(const std::vector<std::uint64_t>& stake) const;

    const LightGenesis* genesis_;
    std::size_t range_blocks_;
    bool commit_fails_ = false;
    sdbft::EpochHeights heights_;
    LightState state_;  // of the tip
    std::map<Hash32, LightState> speculative_;
    std::vector<Tip> tips_;      // by height
    std::vector<Bytes> blocks_;  // by height; the genesis block's is empty
    std::vector<std::optional<Certificate>> certificates_;
    std::map<Hash32, std::uint64_t> heights_by_hash_;
    std::vector<Committee> committees_;  // by epoch, as far as they are frozen
};

}  // namespace quern::sim
