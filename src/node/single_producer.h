// The chain as the single validator's driver sees it: always one block on the newest committed one, by the fixed
// committee's rules. Belongs to the chain thread.
#pragma once

#include "chain/consensus/driver.h"
#include "node/chain.h"

namespace quern::node {

class SingleProducer final : public chain::consensus::BlockProducer {
public:
    // Both outlive this.
    SingleProducer(Chain& chain, const ChainSetup& setup, const Clock& clock)
        : chain_(chain), setup_(setup), clock_(clock) {}

    [[nodiscard]] Expected<chain::consensus::BuiltBlock> build_block(
        const chain::consensus::BuildRequest& request) override;
    [[nodiscard]] Status validate_block(BytesView block) override;
    [[nodiscard]] Expected<chain::consensus::Tip> commit(BytesView block, const Hash32& hash,
                                                         const chain::consensus::Certificate& certificate) override;

private:
    Chain& chain_;
    const ChainSetup& setup_;
    const Clock& clock_;
};

}  // namespace quern::node
