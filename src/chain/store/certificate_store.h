// Consensus' certificates by what they are about, kept for the evidence window: if the chain ever forked they say who
// signed on both sides (doc/consensus.md, Evidence). Certificates are bytes here. A CertificateStore holds a reader and
// no state of its own, so it is as thread-safe as the reader.
//
//   key = epoch (8) || view (8) || type (1) || block hash (32); value = the certificate's encoding
#pragma once

#include "chain/store/kv.h"

namespace quern::chain::store {

inline constexpr std::uint64_t kCertificateEpochs = 128;  // so many epochs behind the newest are kept
inline constexpr std::size_t kMaxPrunedAtOnce = 4096;

class CertificateStore {
public:
    explicit CertificateStore(const Reader& reader) : reader_(reader) {}

    static void put(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint8_t type, const Hash32& hash,
                    BytesView encoded);
    // Those about one view of one type; more than one means that the chain was attacked. Errors: store.corrupt,
    // store.io.
    [[nodiscard]] Expected<std::vector<Bytes>> find(std::uint64_t epoch, std::uint64_t view, std::uint8_t type) const;
    // Erases what lies before `epoch`, at most kMaxPrunedAtOnce; the number of them. Errors: store.corrupt, store.io.
    [[nodiscard]] Expected<std::size_t> prune(WriteBatch& batch, std::uint64_t epoch) const;

private:
    const Reader& reader_;
};

}  // namespace quern::chain::store
