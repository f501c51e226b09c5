// What must hold whatever happens, checked from outside the core: agreement, certificates by weight, no honest double
// sign, no evidence against the honest, no honest peer blamed, states that add up, forks that convict. It has its own
// copy of the chain and its own idea of committees. One per simulation; single-threaded.
#pragma once

#include <set>
#include <string>

#include "sim/keys.h"
#include "sim/light_chain.h"

namespace quern::sim {

class Auditor {
public:
    // `reference` is at its genesis block.
    Auditor(const LightGenesis& genesis, std::unique_ptr<SimChain> reference,
            const chain::consensus::ChainIdentity& chain, const sdbft::Scheme& scheme, std::set<std::size_t> faulty,
            bool fork_allowed);

    // A validator turns out not to keep to the rules any more (an old disk was put back).
    void now_faulty(std::size_t validator) { faulty_.insert(validator); }
    // An honest validator let this vote or proposal leave.
    void signed_and_sent(std::size_t validator, const chain::consensus::Vote& vote);
    void committed(std::size_t node, std::uint64_t height, BytesView block,
                   const std::optional<Certificate>& certificate);
    void kept(std::size_t node, const Certificate& certificate);
    void convicted(const sdbft::Evidence& evidence);
    void halted(std::size_t node, const Error& error);
    void blamed(std::size_t accuser, std::size_t accused, const Error& error);
    void failed(std::string what);
    // The state of a node that ran to the end.
    void state_of(std::size_t node, const SimChain& chain);
    // After the run: a fork must convict a third of the weight.
    void finish();

    [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }
    [[nodiscard]] bool forked() const { return fork_epoch_.has_value(); }
    [[nodiscard]] std::uint64_t transactions() const { return transactions_; }  // in final blocks
    [[nodiscard]] std::uint64_t height() const { return chain_->height(); }
    [[nodiscard]] const SimChain& reference() const { return *chain_; }

private:
    [[nodiscard]] std::optional<std::size_t> validator_of(const crypto::PublicKey& key) const;

    const LightGenesis& genesis_;
    chain::consensus::ChainIdentity identity_;
    const sdbft::Scheme& scheme_;
    std::set<std::size_t> faulty_;
    bool fork_allowed_;
    std::unique_ptr<SimChain> chain_;
    std::uint64_t transactions_ = 0;
    std::optional<std::uint64_t> fork_epoch_;
    std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, std::vector<chain::consensus::Vote>> votes_;
    std::map<std::uint64_t, std::map<std::uint64_t, std::vector<Certificate>>> archive_;  // by epoch, view
    std::set<crypto::PublicKey> convicted_;
    std::vector<std::string> failures_;
};

}  // namespace quern::sim
