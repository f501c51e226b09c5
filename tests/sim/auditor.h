// What must hold whatever happens, checked from outside the core: agreement, certificates by weight, no honest double
// sign, no vote of an honest validator for what a forger made, no evidence against the honest, no honest peer blamed,
// blocks that are what their headers say, states that add up, limits that hold, forks that convict. It has its own copy
// of the chain and its own idea of committees. One per simulation; single-threaded.
#pragma once

#include <set>
#include <string>

#include "sim/forger.h"

namespace quern::sim {

class Auditor {
public:
    struct Rules {  // all outlive it
        const LightGenesis& genesis;
        chain::consensus::ChainIdentity chain;
        const sdbft::Scheme& scheme;
        const ForgeryBook& forgeries;
        bool fork_allowed = false;
        // Somebody signs with the keys of the honest: of those only votes for what a forger made count.
        bool stolen_keys = false;
    };
    // `reference` is at its genesis block.
    Auditor(const Rules& rules, std::unique_ptr<SimChain> reference, std::set<std::size_t> faulty);

    // A validator turns out not to keep to the rules any more (an old disk was put back).
    void now_faulty(std::size_t validator) { faulty_.insert(validator); }
    // An honest validator let this vote or proposal leave.
    void signed_and_sent(std::size_t validator, const chain::consensus::Vote& vote);
    void committed(std::size_t node, std::uint64_t height, BytesView block,
                   const std::optional<Certificate>& certificate);
    void kept(std::size_t node, const Certificate& certificate);
    void convicted(const sdbft::Evidence& evidence);
    // An honest peer told the node of a final block that is another one on its chain, which was this high.
    void told_of_fork(std::size_t node, std::uint64_t height) { told_.try_emplace(node, height); }
    // A node's own search for contradictions accuses the signer; its chain was this high.
    void accused(std::size_t node, const crypto::PublicKey& signer, std::uint64_t height);
    // After the run: whom an honest node's chain has convicted.
    void convicted_on_chain(std::size_t node, std::uint64_t height, const std::vector<types::Address>& convicts);
    void halted(std::size_t node, const Error& error);
    void blamed(std::size_t accuser, std::size_t accused, const Error& error);
    void failed(std::string what);
    // An honest validator voted for a block with this timestamp at this time by its clock.
    void voted_at(std::size_t validator, std::uint64_t timestamp_ms, std::uint64_t wall_ms);
    // How much of something a node holds; from `reached` on, its limit counts as one that bounds.
    void holds(std::size_t node, std::string_view what, std::size_t count, std::size_t reached, std::size_t most);
    void reached(std::string_view limit) { limits_reached_.insert(limit); }
    // The state of a node that ran to the end.
    void state_of(std::size_t node, const SimChain& chain);
    // After the run: a fork must convict a third of the weight.
    void finish();
    // Then, where nodes bring evidence to their chains: what was accused in time must be convicted there, too.
    void finish_on_chains();

    [[nodiscard]] const std::set<std::string_view>& limits_reached() const { return limits_reached_; }
    [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }
    [[nodiscard]] bool forked() const { return fork_epoch_.has_value(); }
    [[nodiscard]] std::size_t chains_that_convicted() const { return chains_that_convicted_; }
    [[nodiscard]] std::uint64_t transactions() const { return transactions_; }  // in final blocks
    [[nodiscard]] std::uint64_t height() const { return chain_->height(); }
    [[nodiscard]] const SimChain& reference() const { return *chain_; }

private:
    [[nodiscard]] std::optional<std::size_t> validator_of(const crypto::PublicKey& key) const;

    // The rules of headers and of what they rest on, against the reference chain.
    [[nodiscard]] Status check_block(const types::Block& block) const;

    const Rules rules_;
    std::set<std::size_t> faulty_;
    std::unique_ptr<SimChain> chain_;
    std::uint64_t transactions_ = 0;
    std::optional<std::uint64_t> fork_epoch_;
    std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, std::vector<chain::consensus::Vote>> votes_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Certificate>> archive_;  // by epoch, view
    std::set<std::string_view> limits_reached_;
    std::set<crypto::PublicKey> convicted_;
    struct Accused {
        crypto::PublicKey signer;
        std::uint64_t height = 0;
    };
    std::map<std::size_t, std::vector<Accused>> accused_;  // by node
    std::map<std::size_t, std::uint64_t> told_;            // node -> height
    struct OnChain {
        std::uint64_t height = 0;
        std::vector<types::Address> convicts;
    };
    std::map<std::size_t, OnChain> on_chains_;  // by node
    std::size_t chains_that_convicted_ = 0;
    std::vector<std::string> failures_;
};

}  // namespace quern::sim
