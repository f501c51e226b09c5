#include "chain/state/state_at.h"

#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

// The value that a proof of our own shows. What our store does not prove is its fault, not the asker's.
Expected<std::optional<Bytes>> proven(const Hash32& root, BytesView key, std::span<const Bytes> nodes) {
    auto value = verify_trie_proof(root, key, nodes);
    if (!value) return fault("store.corrupt", "the stored tries do not prove the state: " + value.error().to_string());
    return value;
}

}  // namespace

Expected<AccountProof> StateAt::prove(const Hash32& state_root, const types::Address& address,
                                      std::span<const Hash32> slots) const {
    AccountProof proof;
    proof.account = empty_account();
    QUERN_TRY(proof.nodes, prove_account(state_root, address));
    QUERN_TRY(const auto account, proven(state_root, crypto::keccak256(address), proof.nodes));
    if (account) {
        QUERN_TRY(proof.account, decode_account(*account));
    }
    const Hash32& storage_root = proof.account.storage_root;
    QUERN_TRY(auto paths, prove_slots(storage_root, address, slots));
    for (std::size_t i = 0; i < slots.size(); ++i) {
        QUERN_TRY(const auto value, proven(storage_root, crypto::keccak256(slots[i]), paths[i]));
        StorageProof slot{slots[i], {}, std::move(paths[i])};
        if (value) {
            rlp::Reader integer(*value);
            QUERN_TRY(const Uint256 word, integer.u256());
            slot.value = word.to_be32();
        }
        proof.slots.push_back(std::move(slot));
    }
    return proof;
}

}  // namespace quern::chain::state
