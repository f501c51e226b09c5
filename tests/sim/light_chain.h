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

#include "chain/consensus/sdbft/actions.h"

namespace quern::sim {

namespace sdbft = chain::consensus::sdbft;
namespace types = chain::types;
using chain::consensus::Certificate;
using chain::consensus::Committee;
using chain::consensus::Tip;

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

class LightChain {
public:
    explicit LightChain(const LightGenesis& genesis);

    [[nodiscard]] Expected<Bytes> build(const sdbft::BlockRequest& request, std::vector<Bytes> transactions,
                                        std::uint8_t mark);
    [[nodiscard]] bool validate(BytesView block);
    // Executes when it has to. Returns the next epoch's setup at an epoch's end. Error: light.invalid.
    [[nodiscard]] Expected<std::optional<sdbft::EpochSetup>> commit(BytesView block,
                                                                    const std::optional<Certificate>& certificate);
    // What a crash takes.
    void lose_speculation() { speculative_.clear(); }

    [[nodiscard]] const Tip& tip() const { return tips_.back(); }
    [[nodiscard]] const LightState& state() const { return state_; }
    [[nodiscard]] std::uint64_t height() const { return tips_.size() - 1; }
    [[nodiscard]] const Hash32& hash_at(std::uint64_t height) const { return tips_[height].hash; }
    [[nodiscard]] Bytes tip_certificate() const;
    // The setup of the epoch of `height`, which is at most the tip's successor.
    [[nodiscard]] sdbft::EpochSetup epoch_at(std::uint64_t height) const;
    [[nodiscard]] std::optional<Committee> committee_of(std::uint64_t epoch) const;
    [[nodiscard]] std::optional<sdbft::BlockAnswer> block(const Hash32& hash) const;
    [[nodiscard]] std::optional<sdbft::RangeAnswer> range(std::uint64_t first) const;
    [[nodiscard]] static bool body_matches(BytesView block);

private:
    [[nodiscard]] const LightState* state_of(const Hash32& hash) const;
    [[nodiscard]] Expected<LightState> execute(const LightState& parent, const types::Block& block) const;
    [[nodiscard]] Committee committee_from(const std::vector<std::uint64_t>& stake) const;

    const LightGenesis* genesis_;
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
