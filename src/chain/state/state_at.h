// The state after one block that may not be the newest, as its tables: a FlatState over it reads as over the store. It
// also proves what it says (EIP-1186). Implementations: PastState (the newest states, by going back), ArchiveState (any
// state, by the nodes of its tries). Reading and proving are thread-safe.
#pragma once

#include <span>

#include "chain/state/overlay.h"
#include "chain/store/kv.h"

namespace quern::chain::state {

struct StorageProof {
    Hash32 slot;
    Hash32 value;
    std::vector<Bytes> nodes;  // from the account's storage root on
};
// Of an account that is there, or that it is not (then it is an empty one).
struct AccountProof {
    Account account;
    std::vector<Bytes> nodes;  // from the state root on
    std::vector<StorageProof> slots;
};

class StateAt : public store::Reader {
public:
    // Every proof is checked against `state_root` before it is given out. Errors: state.too_many_changes (busy),
    // store.*, trie.*.
    [[nodiscard]] Expected<AccountProof> prove(const Hash32& state_root, const types::Address& address,
                                               std::span<const Hash32> slots) const;

protected:
    // Nodes from the root towards keccak256(address), and of the storage trie with this root towards each
    // keccak256(slot).
    [[nodiscard]] virtual Expected<std::vector<Bytes>> prove_account(const Hash32& state_root,
                                                                     const types::Address& address) const = 0;
    [[nodiscard]] virtual Expected<std::vector<std::vector<Bytes>>> prove_slots(
        const Hash32& storage_root, const types::Address& address, std::span<const Hash32> slots) const = 0;
};

}  // namespace quern::chain::state
