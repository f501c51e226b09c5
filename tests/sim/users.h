// People who use a simulated network: they transfer, bond and unbond, submit tasks, bid, start, and tick what is
// overdue. Each transaction is made once; until it is in a block it may be sent again. One per simulation;
// single-threaded.
#pragma once

#include "sim/real_chain.h"

namespace quern::sim {

inline constexpr std::size_t kUsers = 6;
[[nodiscard]] types::Address user_address(std::size_t user);

class Users {
public:
    struct Validator {
        types::Address address;
        std::uint64_t room = 0;  // QRN that may be delegated to it: the faulty share must not grow
    };
    struct Joiner {  // has a key and no stake yet
        Bytes public_key;
        const crypto::PrivateKey* key = nullptr;
    };
    Users(Rng& rng, std::vector<Validator> validators, std::optional<Joiner> joiner)
        : rng_(rng), validators_(std::move(validators)), joiner_(std::move(joiner)) {}
    // A transaction of some user: a new one, or one that was made and is not known to be in a block.
    [[nodiscard]] types::RecoveredTransaction send();
    // Forgets what this chain has.
    void prune(const RealChain& chain);

private:
    [[nodiscard]] types::RecoveredTransaction make();
    [[nodiscard]] types::Transaction form(std::size_t user);
    [[nodiscard]] static types::RecoveredTransaction sign(types::Transaction tx, std::size_t user);
    void choose_staking(types::Transaction& tx, std::size_t user);
    // A native kind, sensible or not, with its payload.
    void choose_native(types::Transaction& tx, std::size_t user);

    Rng& rng_;
    std::vector<Validator> validators_;
    std::optional<Joiner> joiner_;
    std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> delegated_;  // user, validator -> QRN
    std::map<std::size_t, std::uint64_t> nonces_;
    std::uint64_t tasks_ = 0;  // submitted; some of them may fail
    std::vector<types::RecoveredTransaction> waiting_;
};

}  // namespace quern::sim
