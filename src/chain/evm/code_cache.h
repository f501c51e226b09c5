// Code of contracts, analysed, by its hash: what runs often is analysed once for all who execute (the executor, calls
// of RPC, admission). Bounded in bytes; what was not asked for the longest goes. Thread-safe; its lock is split by
// hash.
#pragma once

#include <array>
#include <memory>

#include "base/mutex.h"
#include "chain/state/key_table.h"
#include "vm/evm/code.h"

namespace quern::chain::evm {

class CodeCache {
public:
    // In each of two generations.
    static constexpr std::size_t kMaxBytes = std::size_t{128} << 20;

    explicit CodeCache(std::size_t max_bytes = kMaxBytes);
    // Null when it is not known.
    [[nodiscard]] std::shared_ptr<const vm::evm::Code> find(const Hash32& code_hash);
    // The hash is that of the code. Of two that were put under one hash, the first stays and is returned.
    std::shared_ptr<const vm::evm::Code> put(const Hash32& code_hash, std::shared_ptr<const vm::evm::Code> code);

    [[nodiscard]] std::size_t size() const;

private:
    static constexpr std::size_t kParts = 16;
    // What a code takes, about: itself and its instructions in one fork, for each byte of it, and the entry.
    static constexpr std::size_t kBytesPerByte = 21;
    static constexpr std::size_t kEntryBytes = 512;
    using Codes = state::KeyTable<Hash32, std::shared_ptr<const vm::evm::Code>>;
    struct Part {
        mutable Mutex mutex;
        std::unique_ptr<Codes> young QUERN_GUARDED_BY(mutex) = std::make_unique<Codes>();
        // Dropped when the young ones take as many bytes as may be.
        std::unique_ptr<Codes> old QUERN_GUARDED_BY(mutex) = std::make_unique<Codes>();
        std::size_t young_bytes QUERN_GUARDED_BY(mutex) = 0;
    };
    [[nodiscard]] Part& part_of(const Hash32& code_hash) { return parts_[code_hash.data[0] % kParts]; }
    void put_in(Part& part, const Hash32& code_hash, const std::shared_ptr<const vm::evm::Code>& code)
        QUERN_REQUIRES(part.mutex);

    const std::size_t max_bytes_of_part_;
    std::array<Part, kParts> parts_{};
};

}  // namespace quern::chain::evm
