// In which blocks something happened to a task, and in which ones market or staking moved an account's money, so that
// both are told without a walk over the chain. Entries are part of a block's own batch. No part of the chain's state:
// a database from before the index begins with its next block, and says so.
//
//   task_blocks    || task (8) || block (8)      -> places
//   money_blocks || address (20) || block (8)  -> rlp([places, holdings before the block, holdings after it])
//   places: of transactions in the block, ascending, 4 bytes each
//
// About 25 bytes for each block of a task and 150 for each one of an account, before the database packs them; transfers
// make no entries. Functions over the store that they are given.
#pragma once

#include <span>

#include "chain/api/ledger.h"
#include "chain/state/overlay.h"
#include "chain/store/kv.h"
#include "chain/types/receipt.h"
#include "chain/types/transaction.h"

namespace quern::node {

// What the index must know of a block's transaction.
struct IndexedSender {
    chain::types::Address address;
    bool native = false;  // is_native_call
};

// Adds the block's entries. `overlay`: the state after it, over that before it. Errors: state.corrupt_object.
[[nodiscard]] Status put_activity(chain::store::WriteBatch& batch, std::uint64_t number,
                                  std::span<const IndexedSender> senders,
                                  std::span<const chain::types::Receipt> receipts,
                                  const chain::state::Overlay& overlay);

// Says that the index begins with block `first`, which the batch is of, or follows.
void begin_activity(chain::store::WriteBatch& batch, std::uint64_t first);
// The first block that it knows; nullopt: it has not begun. Errors: store.*.
[[nodiscard]] Expected<std::optional<std::uint64_t>> activity_since(const chain::store::Reader& reader);
// Takes out what is above a block: for who goes back to it. Errors: store.*.
[[nodiscard]] Status erase_activity_above(const chain::store::Reader& reader, std::uint64_t number,
                                          chain::store::WriteBatch& batch);

using Places = std::vector<std::uint32_t>;
struct TaskActivity {
    std::uint64_t block = 0;
    Places places;
};
struct AccountActivity {
    std::uint64_t block = 0;
    Places places;
    chain::api::Holdings before;
    chain::api::Holdings after;
};
// Ascending, of blocks `from` to `to`, at most `limit`. Errors: store.*.
[[nodiscard]] Expected<std::vector<TaskActivity>> activity_of_task(const chain::store::Reader& reader,
                                                                   std::uint64_t task, std::uint64_t from,
                                                                   std::uint64_t to, std::size_t limit);
[[nodiscard]] Expected<std::vector<AccountActivity>> activity_of_account(const chain::store::Reader& reader,
                                                                         const chain::types::Address& account,
                                                                         std::uint64_t from, std::uint64_t to,
                                                                         std::size_t limit);

// What an account holds. Error: state.corrupt_object.
[[nodiscard]] Expected<chain::api::Holdings> holdings_of(const chain::state::StateReader& state,
                                                         const chain::types::Address& account);

}  // namespace quern::node
