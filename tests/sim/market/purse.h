// Who takes part in a market simulation: purses, each with accounts that have bonds, and what its accounts do. Whoever
// colludes is one purse. Plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/uint256.h"
#include "chain/types/address.h"
#include "crypto/signature.h"

namespace quern::sim::market {

enum class Verifying {
    replays,    // what it was drawn for, and says what it finds
    passes,     // without looking
    copies,     // passes, and fills in what it finds in public
    fails,      // whatever the solver did
    withholds,  // commits to its report, and does not reveal it
    misses,     // says that the data is missing
    by_lot,     // one of these each time
};

struct Strategy {
    // A solver makes up these segments of a history, of a thousand; at least one where it is not 0.
    std::uint64_t faked_per_mille = 0;
    std::uint64_t lies_percent = 100;  // of its histories
    // Gives data to nobody but its own verifiers: it needs a majority of them in the draw.
    bool withholds_data = false;
    // Once it is found out it loses to a whistleblower of its own purse.
    bool concedes_to_friend = false;
    Verifying verifying = Verifying::replays;
    bool passes_friends = false;        // whatever its own solver did, with right tiles
    std::uint64_t watch_percent = 100;  // of the watches that it is drawn for
    bool tells_friends = false;         // its verifiers tell its watchers who of them is forced
    std::uint64_t retrain_percent = 0;  // of all claims
    std::uint64_t doubt_percent = 0;    // of claims of which a verifier says that the data is missing
    std::uint64_t straw_percent = 0;    // of right histories, those that it accuses
    // A game that it cannot win: it concedes at once, or lets its clock run out, or plays to the last move.
    bool stalls = false;
    bool fights = false;
};

struct Group {
    std::string name;
    std::size_t accounts = 1;
    Strategy strategy{};
    // QRN that all its accounts have bonded together, in equal parts; 0: not in the role.
    double solver = 0;
    double verifier = 0;
    double whistleblower = 0;
    bool submits = false;   // tasks, in turn with others that do
    bool colludes = false;  // what one of its accounts has computed all of them know
};

struct Account {
    crypto::PrivateKey key;
    crypto::PublicKey public_key;
    chain::types::Address address;
    std::size_t purse = 0;
};

// What became of a purse. Sums of money are grains.
struct Ledger {
    Uint256 before;                           // accounts and bonds
    Uint256 after;                            // the same, when nothing is locked or held any more
    std::map<std::string, Uint256> received;  // by reason
    std::map<std::string, Uint256> slashed;
    Uint256 gas;
    Uint256 escrowed;  // less the deposits for bytes
    Uint256 work;      // units that it computed
    Uint256 cost;      // what these cost
    std::uint64_t submitted = 0;
    std::uint64_t assigned = 0;
    std::uint64_t settled = 0;    // claims of its solvers
    std::uint64_t lies = 0;       // claims with something made up ...
    std::uint64_t paid_lies = 0;  // ... that were settled
    std::uint64_t reports = 0;    // draws of its verifiers
    std::uint64_t watches = 0;    // carried out
    std::uint64_t accusations = 0;

    [[nodiscard]] double profit() const;  // QRN: after - before - cost
    [[nodiscard]] double money() const;   // QRN: after - before
};

}  // namespace quern::sim::market
