// One core among four equal validators; the test plays the others, the disk, the clock and the executor.
// Single-threaded.
#pragma once

#include <deque>

#include "chain/consensus/beacon.h"
#include "chain/consensus/sdbft/core.h"
#include "sim/keys.h"
#include "sim/light_chain.h"

namespace quern::chain::consensus::sdbft {

struct Harness {
    static constexpr std::uint64_t kEpochLength = 4;
    static constexpr std::uint64_t kWall = 1'000'000;

    // The core is the member that is (or is not) the master of view 1.
    explicit Harness(bool master_of_first = false, bool members_change = false);
    // Who signs for which member, after the committee has changed.
    void resolve_members();
    // A new process on what the disk holds.
    void restart(bool with_journal = true);
    void start() { step(event::Started{}); }

    void step(const Event& event);
    void receive(std::size_t member, const Message& message) { step(event::Received{member, encode(message)}); }
    void pass(std::uint64_t milliseconds);
    void sync();  // answers what waits for the disk

    [[nodiscard]] std::size_t master(std::uint64_t view) const { return master_of(epoch, view); }
    [[nodiscard]] std::vector<std::size_t> others() const;
    [[nodiscard]] Signature signature(std::size_t member, const Vote& vote) const;
    [[nodiscard]] VoteMessage vote(std::size_t member, VoteType type, std::uint64_t view,
                                   const Hash32& hash = {}) const;
    // Signed by the three others.
    [[nodiscard]] Certificate certificate(VoteType type, std::uint64_t view, const Hash32& hash = {}) const;
    // Signed by this core's key, in a life it knows nothing of, and two others.
    [[nodiscard]] Certificate certificate_with_me(VoteType type, std::uint64_t view, const Hash32& hash = {}) const;
    struct Made {
        Tip tip;
        Bytes bytes;
    };
    [[nodiscard]] Made block(std::uint64_t view, const Tip& parent, const Bytes& parent_certificate,
                             std::uint8_t mark = 9, std::uint64_t timestamp = 0);
    // The first block, on the genesis block.
    [[nodiscard]] Made first(std::uint64_t view = 1, std::uint8_t mark = 9) {
        return block(view, genesis.tip(), {}, mark);
    }
    [[nodiscard]] ProposeMessage proposal(std::uint64_t view, const Made& made,
                                          std::vector<Certificate> nullifications = {},
                                          std::optional<Certificate> justification = std::nullopt) const;
    // Everybody else agrees on the block: it is notarized and final.
    void finalize(std::uint64_t view, const Made& made);

    [[nodiscard]] std::size_t sent_votes(VoteType type, std::uint64_t view) const;
    [[nodiscard]] std::optional<Hash32> voted(VoteType type, std::uint64_t view) const;
    template <class T>
    [[nodiscard]] std::vector<T> sent() const {
        std::vector<T> found;
        for (const auto& message : messages)
            if (const auto* m = std::get_if<T>(&message)) found.push_back(*m);
        return found;
    }
    void forget() {
        messages.clear();
        asked_ranges.clear();
        asked_blocks.clear();
        answers.clear();
    }

    sim::KeyRing keys;
    sim::LightGenesis genesis;
    std::unique_ptr<sim::LightChain> chain;  // the core's
    std::unique_ptr<sim::LightChain> world;  // the others'
    ChainIdentity identity;
    EpochSetup epoch;
    std::vector<std::size_t> signer_of_member;
    std::size_t me = 0;
    std::unique_ptr<Core> core;
    Time now{kWall, 1};
    std::uint64_t delta_ms = 100;
    std::uint64_t max_idle_ms = 100;
    std::size_t rewrite_bytes = 1U << 20;
    std::uint64_t listen_ms = 0;
    Limits limits;
    bool accept_missing_journal = false;
    bool members_answer = true;  // at once, that they have heard no vote of this key

    bool auto_sync = true;
    std::deque<std::uint64_t> unsynced;
    std::vector<Record> journal;                      // durable
    std::vector<std::vector<Record>> waiting;         // not yet
    std::vector<Message> messages;                    // sent
    std::vector<std::pair<PeerId, Message>> answers;  // those of them that were for one peer
    std::vector<action::AskRange> asked_ranges;
    std::vector<action::AskBlock> asked_blocks;
    std::vector<Hash32> served_blocks;
    std::vector<std::uint64_t> served_ranges;
    std::vector<Bytes> transactions;  // of the blocks that the others make
    std::function<void(event::Committed&)> alter_committed;
    std::vector<std::string_view> misbehaved;
    std::vector<action::Wrong> wrongs;  // of those
    std::vector<Evidence> evidence;
    std::vector<Certificate> kept;
    std::vector<Hash32> validated;
    bool valid = true;  // the executor's answer
    std::optional<Error> halt;
    std::optional<std::uint64_t> wake;
    std::size_t rewrites = 0;
};

}  // namespace quern::chain::consensus::sdbft
