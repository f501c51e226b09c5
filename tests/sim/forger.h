// A Byzantine validator's pen: proposals, votes, certificates and answers, each false in one way only, so that the
// check that is there for it is the one that has to refuse it. What no honest validator may ever vote for is entered in
// a book that the auditor reads. One per forging node; single-threaded.
#pragma once

#include <functional>

#include "chain/consensus/sdbft/proposal_rules.h"
#include "sim/keys.h"
#include "sim/light_chain.h"

namespace quern::sim {

// False blocks by hash, and proposals that are false in one view only; with what is wrong with them.
struct ForgeryBook {
    std::map<Hash32, std::string_view> blocks;
    std::map<std::tuple<std::uint64_t, std::uint64_t, Hash32>, std::string_view> proposals;  // epoch, view, hash
    // False blocks that whoever reads them first in their view must blame their sender for, whatever else it knows.
    std::map<Hash32, std::string_view> refused_at_once;
    std::map<std::string_view, std::uint64_t> written;  // how often each kind was made
    // Null if an honest validator may notarize the block in this view.
    [[nodiscard]] const std::string_view* find(std::uint64_t epoch, std::uint64_t view, const Hash32& hash) const;
};

class Forger {
public:
    struct Parts {  // all outlive it
        Rng& rng;
        const KeyRing& keys;
        const LightGenesis& genesis;
        ForgeryBook& book;
        chain::consensus::ChainIdentity identity;
        std::size_t validator = 0;  // whose key it has
        bool stolen_keys = false;   // and everybody else's too
    };
    explicit Forger(const Parts& parts) : parts_(parts), heights_(parts.genesis.epoch_length) {}

    // One message to everybody, or to about half of them.
    struct Out {
        std::uint64_t delay_ms = 0;
        Bytes message;
        bool to_half = false;
    };
    // What goes out instead of this node's own proposal: the same each time that it is repeated.
    [[nodiscard]] std::vector<Out> propose(const Bytes& genuine, SimChain& chain, std::uint64_t wall_ms);
    // Remembers what comes in and, now and then, says something false about it.
    [[nodiscard]] std::vector<Out> hear(const Bytes& bytes, SimChain& chain);
    // A false answer instead of the true one, or nothing where the truth does better.
    [[nodiscard]] std::optional<Bytes> answer(const Bytes& honest);

private:
    struct Draft {
        sdbft::ProposeMessage message;
        types::Block block;
        sdbft::BlockInfo info;  // of the genuine block
        std::uint64_t wall_ms = 0;
        SimChain* chain = nullptr;
        std::vector<Out> besides;
        bool signed_already = false;  // the block's hash is the genuine one's
        bool this_view_only = false;  // false in this view, fine in another
        bool no_fault = false;        // nothing that is false for ever
        bool refused_at_once = false;
        bool silent = false;
    };
    struct Way {
        std::string_view name;
        bool (Forger::*forge)(Draft&);  // false: not possible here
        bool rare = false;              // needs an opportunity: tried whenever there is one
    };
    static const Way kWays[];

    bool number(Draft& draft);
    bool epoch(Draft& draft);
    bool view(Draft& draft);
    bool early_timestamp(Draft& draft);
    bool future_timestamp(Draft& draft);
    bool committee(Draft& draft);
    bool next_committee(Draft& draft);
    bool beacon(Draft& draft);
    bool beacon_proof(Draft& draft);
    bool genesis_certificate(Draft& draft);
    bool parent_signatures(Draft& draft);
    bool parent_quorum(Draft& draft);
    bool no_parent_certificate(Draft& draft);
    bool nullified_parent(Draft& draft);
    bool parent_of_an_epoch_before(Draft& draft);
    bool earlier_finalization(Draft& draft);
    bool unclosed_epoch(Draft& draft);
    bool withhold(Draft& draft);
    bool unnotarized_again(Draft& draft);
    bool child_of_withheld(Draft& draft);
    bool old_block_again(Draft& draft);
    bool sibling(Draft& draft);
    bool child_of_sibling(Draft& draft);
    bool stolen_parent_view(Draft& draft);
    bool state_root(Draft& draft);
    bool body_transactions(Draft& draft);
    bool body_certificate(Draft& draft);
    bool no_block(Draft& draft);

    // Puts the certificate under the block, in its body and its header.
    void rest_on(Draft& draft, Bytes certificate) const;
    // The block says that its parent is whatever the certificate is about.
    void rest_on_another(Draft& draft, const Certificate& certificate) const;
    [[nodiscard]] sdbft::Signature sign(const chain::consensus::Vote& vote) const;
    [[nodiscard]] sdbft::Signature noise();
    // `by_all`: signed with every key; else noise in everybody's name.
    [[nodiscard]] Certificate certificate(const chain::consensus::Vote& vote, const Committee& committee, bool by_all);
    [[nodiscard]] std::optional<std::size_t> member(const Committee& committee) const;
    void remember(const sdbft::Message& message);
    [[nodiscard]] std::optional<sdbft::BlockInfo> known(const Hash32& hash) const;
    [[nodiscard]] Bytes changed_body(BytesView block);
    [[nodiscard]] std::optional<Bytes> chatter(const sdbft::Message& heard, SimChain& chain);
    [[nodiscard]] std::optional<Bytes> false_vote(chain::consensus::Vote vote, const Committee& committee);
    [[nodiscard]] std::optional<Bytes> false_certificate(chain::consensus::Vote vote, const Committee& committee);
    [[nodiscard]] std::optional<Bytes> proposal_in_anothers_name(const sdbft::ProposeMessage& heard);
    [[nodiscard]] std::optional<Bytes> false_range(const Committee& committee, SimChain& chain);
    [[nodiscard]] Bytes absurd_query(std::uint64_t epoch);

    const Parts parts_;
    sdbft::EpochHeights heights_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Out>> proposed_;  // by epoch, view
    std::map<Hash32, Bytes> blocks_;
    std::map<std::tuple<std::uint64_t, std::uint64_t, chain::consensus::VoteType>, Certificate> certificates_;
    std::optional<Hash32> withheld_;
    std::optional<std::pair<Hash32, Hash32>> sibling_;  // of this block: this one
};

}  // namespace quern::sim
