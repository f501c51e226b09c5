// The registry of key prefixes: every key in the database starts with one of these bytes, so that parts of the node
// share one store and one batch without meeting. A new table is a line here. Numbers never change meaning. Pure.
#pragma once

#include <initializer_list>

#include "base/bytes.h"

namespace quern::chain::store {

enum class Table : std::uint8_t {
    meta = 0x00,          // name -> value: database version, chain id, genesis hash
    block = 0x10,         // block hash -> encoded block
    receipts = 0x11,      // block hash -> rlp([stored receipt...])
    tx_index = 0x12,      // transaction hash -> rlp([block hash, block number, position])
    canonical = 0x13,     // block number (8, big endian) -> block hash
    finalization = 0x14,  // block hash -> finalization record
    head = 0x15,          // -> rlp([number, hash])
    height = 0x16,        // epoch (8) || view (8) -> number (8) of the canonical block that was proposed in it
    task_blocks = 0x17,   // task (8) || block number (8) -> transactions of the block that are about it
    money_blocks = 0x18,  // address || block number (8) -> those that moved its money, what it held before and after
    account = 0x20,       // address -> account (flat state)
    storage = 0x21,       // address || slot -> value
    code = 0x22,          // code hash -> code
    native = 0x23,        // native object key -> record
    account_trie =
        0x32,  // part || path in it, a nibble a byte -> node of the accounts' trie; 0x30, 0x31 were used before
    native_trie = 0x33,   // path -> node of the native objects' trie
    storage_trie = 0x34,  // keccak256(address) || path -> node of the account's storage trie
    trie_part = 0x35,     // part (2) -> number of the block as of which that part of the tries is stored
    changes = 0x36,       // part (2) || block number (8) -> what the block changed in it, with what was there before
    above_parts = 0x37,   // number (1) -> node of the accounts' trie above its parts
    archive = 0x38,       // hash -> node of a trie of any block
    certificate = 0x41,   // epoch || view || type || block hash -> consensus certificate; 0x40 was used before
    evidence = 0x42,      // address of whom it convicts -> evidence that the chain has not acted upon yet
};

// Table byte, then the parts. Numbers are big endian (base/big_endian.h), so that they sort.
[[nodiscard]] Bytes table_key(Table table, std::initializer_list<BytesView> parts = {});

}  // namespace quern::chain::store
