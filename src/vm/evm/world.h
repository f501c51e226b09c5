// What the machine (machine.h) sees of a state and of the block around it: accounts, storage, what a transaction has
// touched, logs, hashes of older blocks. The node has one over its journaled state, the test runner the same. Of one
// transaction at a time: begin_transaction() forgets what was warm, transient, made and destroyed. Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/uint256.h"
#include "vm/evm/revision.h"

namespace quern::vm::evm {

class Code;  // code.h

using Address = Bytes20;

struct Log {
    Address address;
    std::vector<Hash32> topics;
    Bytes data;
};

// Of the block that is executed. Opcodes: COINBASE, NUMBER, TIMESTAMP, GASLIMIT, PREVRANDAO or DIFFICULTY, BASEFEE,
// BLOBBASEFEE, CHAINID.
struct BlockContext {
    Address coinbase;
    std::uint64_t number = 0;
    std::uint64_t timestamp = 0;  // seconds
    std::uint64_t gas_limit = 0;
    Uint256 difficulty;     // before Paris
    Hash32 prev_randao;     // from Paris on
    Uint256 base_fee;       // from London on
    Uint256 blob_base_fee;  // from Cancun on
    // Blobs that it has room for, where that is another number than a block has in the revision (EIP-7892).
    std::optional<std::size_t> max_blobs;
    std::uint64_t chain_id = 1;
};

class World {
public:
    virtual ~World() = default;

    virtual void begin_transaction() = 0;
    // Deletes what was marked destroyed and, with `clears_empty` (EIP-161), each touched account that is empty.
    virtual void end_transaction(bool clears_empty) = 0;
    // A point to which revert_to undoes everything below, warm entries, transient storage and logs included. Nested.
    [[nodiscard]] virtual std::size_t snapshot() = 0;
    virtual void revert_to(std::size_t point) = 0;

    // --- Accounts. One that is not there reads as empty.
    [[nodiscard]] virtual bool exists(const Address& address) = 0;    // in the state, if only as an empty account
    [[nodiscard]] virtual bool is_empty(const Address& address) = 0;  // EIP-161: no nonce, balance, code
    [[nodiscard]] virtual Uint256 balance(const Address& address) = 0;
    [[nodiscard]] virtual std::uint64_t nonce(const Address& address) = 0;
    [[nodiscard]] virtual Hash32 code_hash(const Address& address) = 0;  // keccak256("") when there is no code
    // Never null; the same object for the same code as long as somebody holds it, where the world can arrange it.
    [[nodiscard]] virtual std::shared_ptr<const Code> code(const Address& address) = 0;
    [[nodiscard]] virtual bool has_storage(const Address& address) = 0;  // any slot that is not zero (EIP-7610)
    // These make the account if it is not there.
    virtual void set_balance(const Address& address, const Uint256& balance) = 0;
    virtual void set_nonce(const Address& address, std::uint64_t nonce) = 0;
    virtual void set_code(const Address& address, BytesView code) = 0;
    virtual void touch(const Address& address) = 0;
    // A contract is made there now: keeps the balance; storage that was there (before EIP-7610's rule that needed a
    // collision) is gone; is_new() from here on.
    virtual void create_contract(const Address& address) = 0;
    [[nodiscard]] virtual bool is_new(const Address& address) = 0;  // made in this transaction (EIP-6780)
    // To be deleted at the transaction's end. True when it was not marked before (the refund before London).
    virtual bool mark_destroyed(const Address& address) = 0;

    // --- Storage.
    struct Slot {
        Uint256 value;
        Uint256 original;  // at the transaction's beginning (EIP-2200)
        bool was_warm = false;
    };
    // The slot, which is warm from here on (EIP-2929).
    [[nodiscard]] virtual Slot access_slot(const Address& address, const Uint256& key) = 0;
    virtual void set_storage(const Address& address, const Uint256& key, const Uint256& value) = 0;
    [[nodiscard]] virtual Uint256 transient(const Address& address, const Uint256& key) = 0;  // EIP-1153
    virtual void set_transient(const Address& address, const Uint256& key, const Uint256& value) = 0;

    // The account is warm from here on; whether it was before.
    virtual bool access_account(const Address& address) = 0;

    virtual void add_log(Log log) = 0;
    // Of one of the 256 blocks before the current one; zero for any other.
    [[nodiscard]] virtual Hash32 block_hash(std::uint64_t number) = 0;
};

}  // namespace quern::vm::evm
