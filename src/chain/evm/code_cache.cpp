#include "chain/evm/code_cache.h"

namespace quern::chain::evm {

CodeCache::CodeCache(std::size_t max_bytes) : max_bytes_of_part_(max_bytes / kParts) {}

std::shared_ptr<const vm::evm::Code> CodeCache::find(const Hash32& code_hash) {
    Part& part = part_of(code_hash);
    const MutexLock lock(part.mutex);
    if (const auto* found = part.young->find(code_hash)) return found->value;
    const auto* found = part.old->find(code_hash);
    if (found == nullptr) return nullptr;
    const auto code = found->value;
    put_in(part, code_hash, code);
    return code;
}

std::shared_ptr<const vm::evm::Code> CodeCache::put(const Hash32& code_hash,
                                                    std::shared_ptr<const vm::evm::Code> code) {
    Part& part = part_of(code_hash);
    const MutexLock lock(part.mutex);
    if (const auto* found = part.young->find(code_hash)) return found->value;
    if (const auto* found = part.old->find(code_hash)) code = found->value;
    put_in(part, code_hash, code);
    return code;
}

void CodeCache::put_in(Part& part, const Hash32& code_hash, const std::shared_ptr<const vm::evm::Code>& code) {
    const std::size_t bytes = kEntryBytes + kBytesPerByte * code->bytes().size();
    if (part.young_bytes + bytes > max_bytes_of_part_ && part.young->size() != 0) {
        part.old = std::move(part.young);
        part.young = std::make_unique<Codes>();
        part.young_bytes = 0;
    }
    part.young->find_or_add(code_hash).first->value = code;
    part.young_bytes += bytes;
}

std::size_t CodeCache::size() const {
    std::size_t sum = 0;
    for (const Part& part : parts_) {
        const MutexLock lock(part.mutex);
        sum += part.young->size() + part.old->size();
    }
    return sum;
}

}  // namespace quern::chain::evm
