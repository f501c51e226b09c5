#include "chain/mempool/pooled.h"

#include "chain/exec/fees.h"
#include "chain/types/abi.h"

namespace quern::chain::mempool {
namespace {

// What the allocator adds to a piece at most: jemalloc has four sizes for each power of two, and the least is 16.
constexpr std::size_t kSizesOfAPower = 4;
constexpr std::size_t kLeastSize = 16;
// Nodes: by hash, by arrival, the sender's queue with its slot, its places in three ordered tables.
constexpr std::size_t kTables = 48 + 64 + 320 + 3 * 128;

std::size_t allocated(std::size_t bytes) { return bytes == 0 ? 0 : bytes + bytes / kSizesOfAPower + kLeastSize; }

}  // namespace

std::size_t footprint(const types::RecoveredTransaction& transaction) {
    const auto& tx = transaction.tx;
    std::size_t bytes = kTables + allocated(sizeof(PooledTransaction) + 2 * sizeof(void*));
    bytes += allocated(transaction.encoded.capacity()) + allocated(tx.data.capacity());
    bytes += allocated(tx.access_list.capacity() * sizeof(types::AccessListEntry));
    for (const auto& entry : tx.access_list) bytes += allocated(entry.storage_keys.capacity() * sizeof(Hash32));
    return bytes + allocated(tx.authorization_list.capacity() * sizeof(types::Authorization));
}

Uint256 cost_of(const PooledTransaction& pooled) {
    const auto& tx = pooled.transaction.tx;
    const Uint256 cost = tx.max_fee_per_gas * Uint256(tx.gas_limit) + tx.value;
    return checked_add(cost, pooled.outlay).value_or(~Uint256());
}

bool Price::operator<(const Price& other) const {
    if (fee_cap != other.fee_cap) return fee_cap < other.fee_cap;
    if (tip_cap != other.tip_cap) return tip_cap < other.tip_cap;
    return arrival > other.arrival;
}

Price price_of(const PooledTransaction& pooled) {
    const auto& tx = pooled.transaction.tx;
    if (exec::travels_free(tx)) return {~Uint256(), ~Uint256(), pooled.arrival};
    return {tx.max_fee_per_gas, tx.max_priority_fee_per_gas, pooled.arrival};
}

bool is_task_submit(const types::Transaction& tx) {
    if (tx.type == types::TxType::native)
        return tx.native_kind == static_cast<std::uint8_t>(types::NativeKind::task_submit);
    if (!tx.to || *tx.to != types::group_address(types::KindGroup::tasks) || tx.data.size() < 4) return false;
    return types::abi::Selector::copy_of(BytesView(tx.data).first(4)) ==
           types::abi::selector(types::NativeKind::task_submit);
}

bool is_dispute_move(const types::Transaction& tx) {
    if (tx.type != types::TxType::native) return tx.to == types::group_address(types::KindGroup::disputes);
    const auto* kind = types::find_kind(tx.native_kind);
    return kind != nullptr && types::group_of(kind->kind) == types::KindGroup::disputes;
}

}  // namespace quern::chain::mempool
