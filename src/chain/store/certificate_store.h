// Consensus' certificates by what they are about, kept as long as they can convict somebody: if the chain ever forked
// they say who signed on both sides (doc/consensus.md, Evidence). Certificates are bytes here. The store classes hold a
// reader and no state of their own, so they are as thread-safe as the reader.
//
//   certificate = epoch (8) || view (8) || type (1) || block hash (32) -> the certificate's encoding
//   evidence    = address (20) of whom it convicts -> the evidence's encoding; what the chain has not acted upon yet
#pragma once

#include <set>

#include "chain/store/kv.h"

namespace quern::chain::store {

// Behind the newest so many epochs are kept whole; of older ones only what the chain itself does not hold.
inline constexpr std::uint64_t kWholeCertificateEpochs = 8;
inline constexpr std::size_t kMaxPrunedAtOnce = 4096;

class CertificateStore {
public:
    explicit CertificateStore(const Reader& reader) : reader_(reader) {}

    static void put(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint8_t type, const Hash32& hash,
                    BytesView encoded);
    // Those about one view, of one type or (0) of any; more than one of a type means that the chain was attacked.
    // Errors: store.corrupt, store.io.
    [[nodiscard]] Expected<std::vector<Bytes>> find(std::uint64_t epoch, std::uint64_t view,
                                                    std::uint8_t type = 0) const;
    // Erases what lies before `epoch`, at most kMaxPrunedAtOnce; the number of them. Errors: store.corrupt, store.io.
    [[nodiscard]] Expected<std::size_t> prune(WriteBatch& batch, std::uint64_t epoch) const;
    // Erases those of this epoch that are about one of these blocks. Errors: store.corrupt, store.io.
    [[nodiscard]] Status thin(WriteBatch& batch, std::uint64_t epoch, const std::set<Hash32>& blocks) const;

private:
    const Reader& reader_;
};

class EvidenceStore {
public:
    explicit EvidenceStore(const Reader& reader) : reader_(reader) {}

    static void put(WriteBatch& batch, const Bytes20& convict, BytesView encoded);
    static void erase(WriteBatch& batch, const Bytes20& convict);
    // Errors: store.corrupt, store.io.
    [[nodiscard]] Expected<std::vector<std::pair<Bytes20, Bytes>>> all() const;

private:
    const Reader& reader_;
};

}  // namespace quern::chain::store
