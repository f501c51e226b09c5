// The ordered key-value store under everything that is kept on disk: state tables, trie nodes, blocks, indexes. One
// WriteBatch is applied as a whole or not at all. Implementations: LevelDbStore (disk), MemoryStore (tests, tools),
// FaultStore (loses what was not synced). Keys start with a Table byte (tables.h). All implementations may be read and
// written from several threads; readers that need one consistent view take a snapshot.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::chain::store {

class WriteBatch {
public:
    struct Operation {
        Bytes key;
        std::optional<Bytes> value;  // absent: erase
    };

    void put(Bytes key, Bytes value) { operations_.push_back({std::move(key), std::move(value)}); }
    void put(Bytes key, BytesView value) { operations_.push_back({std::move(key), to_bytes(value)}); }
    void erase(Bytes key) { operations_.push_back({std::move(key), std::nullopt}); }
    // Applied in order: a later operation on a key wins.
    [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
    [[nodiscard]] bool empty() const { return operations_.empty(); }
    void clear() { operations_.clear(); }
    void append(WriteBatch more);

private:
    std::vector<Operation> operations_;
};

class Reader {
public:
    // Return false to stop.
    using Visitor = std::function<bool(BytesView key, BytesView value)>;

    virtual ~Reader() = default;
    // nullopt when there is none. Errors: store.corrupt, store.io.
    [[nodiscard]] virtual Expected<std::optional<Bytes>> get(BytesView key) const = 0;
    // Visits the keys that start with `prefix`, ascending, from `start` on (inclusive; empty: from the first). The
    // views live until the visitor returns. Errors as get.
    [[nodiscard]] virtual Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const = 0;
};

class Store : public Reader {
public:
    // With `sync` the batch, and all before it, survive a crash of the machine. Errors: store.io, store.corrupt.
    [[nodiscard]] virtual Status write(const WriteBatch& batch, bool sync) = 0;
    // An immutable view; lives no longer than the store.
    [[nodiscard]] virtual std::unique_ptr<Reader> snapshot() const = 0;
};

}  // namespace quern::chain::store
