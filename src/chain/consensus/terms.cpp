#include "chain/consensus/terms.h"

namespace quern::chain::consensus {

Tip tip_of(const types::BlockHeader& header) {
    const auto& fields = header.consensus;
    return {header.number, types::hash_of(header), fields.epoch, fields.view, fields.timestamp_ms, fields.beacon};
}

}  // namespace quern::chain::consensus
