// What certificates there are about a view: those that were kept, and those that the chain itself holds (a block's
// finalization; its parent's certificate in its body). Used to serve them and to find contradictions. Reads the disk.
// As thread-safe as the reader.
#pragma once

#include "chain/consensus/certificate.h"
#include "chain/consensus/sdbft/epoch.h"
#include "chain/store/block_store.h"

namespace quern::node {

class CertificateLookup {
public:
    CertificateLookup(const chain::store::Reader& reader, chain::consensus::sdbft::EpochHeights heights)
        : reader_(reader), blocks_(reader), heights_(heights) {}

    // All that is known about the view; each was verified before it was stored. Errors: store.*, certificate.*, rlp.*.
    [[nodiscard]] Expected<std::vector<chain::consensus::Certificate>> about(std::uint64_t epoch,
                                                                             std::uint64_t view) const;
    // Those of them that were kept: without reading blocks. Errors as above.
    [[nodiscard]] Expected<std::vector<chain::consensus::Certificate>> kept(std::uint64_t epoch,
                                                                            std::uint64_t view) const;
    // The finalization that made the block at this height final: its own, or that of the first block after it in its
    // epoch that has one. Errors: as above; certificate.none.
    [[nodiscard]] Expected<chain::consensus::Certificate> covering(std::uint64_t height) const;

private:
    [[nodiscard]] Expected<Bytes> block_at(std::uint64_t height) const;

    const chain::store::Reader& reader_;
    const chain::store::BlockStore blocks_;
    const chain::consensus::sdbft::EpochHeights heights_;
};

}  // namespace quern::node
