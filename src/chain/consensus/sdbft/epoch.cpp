#include "chain/consensus/sdbft/epoch.h"

#include "base/big_endian.h"
#include "crypto/hash.h"

namespace quern::chain::consensus::sdbft {

std::size_t master_of(const EpochSetup& epoch, std::uint64_t view) {
    const Hash32 draw = crypto::sha256({epoch.seed.view(), be64(view).view()});
    // The remainder's bias is below W / 2^256.
    Uint256 ticket = Uint256::divmod(Uint256::from_be(draw), epoch.committee.total_weight()).remainder;
    const auto& members = epoch.committee.members();
    for (std::size_t i = 0; i + 1 < members.size(); ++i) {
        if (ticket < members[i].weight) return i;
        ticket -= members[i].weight;
    }
    return members.size() - 1;
}

}  // namespace quern::chain::consensus::sdbft
