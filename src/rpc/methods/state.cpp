// eth_*: accounts, code and storage.
#include <algorithm>

#include "rpc/methods/backend.h"

namespace quern::rpc::methods {
namespace {

constexpr Parameter kAddress{"address", Kind::address, true, "the account"};
constexpr Parameter kBlock{"block", Kind::block, false, "whose state; latest when left out"};
constexpr ErrorInfo kNoState{kServerError, "chain.state_unavailable: the state of that block is not kept"};

// A storage key as clients write it: a quantity or up to 32 bytes.
Expected<Hash32> read_slot(const json::Value& value) {
    QUERN_TRY(const std::string_view text, value.as_string());
    if (!text.starts_with("0x") || text.size() > 2 + 2 * Hash32::kSize)
        return fail("value.bad_hex", "a storage key is at most 32 bytes of hex");
    const std::string padded = std::string(2 + 2 * Hash32::kSize - text.size(), '0') + std::string(text.substr(2));
    return fixed_from_hex<Hash32::kSize>(padded);
}

// What was read, unless the store failed meanwhile.
Result answer(const chain::api::StateView& state, std::string text) {
    if (const auto status = state.status(); !status) return rpc_fail(status.error(), kInternalError);
    return json::Value(std::move(text));
}

// More would make one call cost what a thousand do.
constexpr std::size_t kMaxSlotsProven = 1024;

json::Value nodes_json(const std::vector<Bytes>& nodes) {
    json::Array list;
    for (const auto& node : nodes) list.push_back(hex(node));
    return list;
}

Method proof_method(const chain::api::ChainReader* chain) {
    return {"eth_getProof",
            "An account and words of its storage with the trie nodes that prove them under the block's stateRoot "
            "(EIP-1186), also that they are not there.",
            {kAddress,
             {"slots", Kind::array, true, "storage keys, each up to 32 bytes; 1,024 at most"},
             {"block", Kind::block, false, "under whose state root; latest when left out"}},
            {"object", "address, balance, nonce, codeHash, storageHash, accountProof, storageProof"},
            {kNoState},
            {},
            [chain](const Call& call) -> Result {
                QUERN_RPC_TRY(const auto list, call.value(1).as_array());
                if (list.size() > kMaxSlotsProven)
                    return rpc_fail(kInvalidParams, "more than " + std::to_string(kMaxSlotsProven) + " storage keys");
                std::vector<Hash32> slots;
                for (const auto& item : list) {
                    const auto slot = read_slot(item);
                    if (!slot) return rpc_fail(slot.error(), kInvalidParams);
                    slots.push_back(*slot);
                }
                QUERN_RPC_TRY(const auto state, chain->state(call.block(2)));
                QUERN_RPC_TRY(const auto proof, state->prove(call.address(0), slots));
                json::Array storage;
                for (const auto& slot : proof.slots)
                    storage.push_back(json::Object{{"key", hex(slot.slot)},
                                                   {"value", quantity(Uint256::from_be(slot.value))},
                                                   {"proof", nodes_json(slot.nodes)}});
                return json::Object{
                    {"address", hex(call.address(0))},        {"balance", quantity(proof.account.balance)},
                    {"nonce", quantity(proof.account.nonce)}, {"codeHash", hex(proof.code_hash)},
                    {"storageHash", hex(proof.storage_root)}, {"accountProof", nodes_json(proof.nodes)},
                    {"storageProof", std::move(storage)}};
            }};
}

}  // namespace

Status add_state_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    QUERN_CHECK(
        registry.add({"eth_getBalance",
                      "The balance of an account in grains (10^-18 QRN).",
                      {kAddress, kBlock},
                      {"quantity", "grains"},
                      {kNoState},
                      {{R"(["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"])", R"("0xde0b6b3a7640000")"}},
                      [chain](const Call& call) -> Result {
                          QUERN_RPC_TRY(const auto state, chain->state(call.block(1)));
                          return answer(*state, quantity(state->account(call.address(0)).balance));
                      }}));
    QUERN_CHECK(registry.add({"eth_getTransactionCount",
                              "The nonce of an account's next transaction; \"pending\" counts waiting ones too.",
                              {kAddress, kBlock},
                              {"quantity", "the nonce"},
                              {kNoState},
                              {{R"(["0x407d73d8a49eeb85d32cf465507dd71d507100c1","pending"])", R"("0x1")"}},
                              [chain](const Call& call) -> Result {
                                  const auto block = call.block(1);
                                  if (block.kind == chain::api::BlockSelector::Kind::pending)
                                      return quantity(chain->pending_nonce(call.address(0)));
                                  QUERN_RPC_TRY(const auto state, chain->state(block));
                                  return answer(*state, quantity(state->account(call.address(0)).nonce));
                              }}));
    QUERN_CHECK(registry.add({"eth_getCode",
                              "The code at an address; reserved addresses have 0x60006000fd.",
                              {kAddress, kBlock},
                              {"data", "the code; 0x for none"},
                              {kNoState},
                              {{R"(["0x0000000000000000000000000000000000005103","latest"])", R"("0x60006000fd")"}},
                              [chain](const Call& call) -> Result {
                                  QUERN_RPC_TRY(const auto state, chain->state(call.block(1)));
                                  return answer(*state, hex(state->code_at(call.address(0))));
                              }}));
    QUERN_CHECK(registry.add(proof_method(chain)));
    return registry.add({"eth_getStorageAt",
                         "A word of a contract's storage.",
                         {kAddress, {"slot", Kind::string, true, "the storage key, up to 32 bytes"}, kBlock},
                         {"data", "32 bytes"},
                         {kNoState},
                         {},
                         [chain](const Call& call) -> Result {
                             const auto slot = read_slot(call.value(1));
                             if (!slot) return rpc_fail(slot.error(), kInvalidParams);
                             QUERN_RPC_TRY(const auto state, chain->state(call.block(2)));
                             return answer(*state, hex(state->storage(call.address(0), *slot)));
                         }});
}

}  // namespace quern::rpc::methods
