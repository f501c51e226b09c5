#include "chain/types/amount.h"

namespace quern::chain::types {

std::string in_qrn(const Uint256& grains) {
    std::string digits = grains.to_decimal();
    if (digits.size() <= kQrnDecimals) digits.insert(0, kQrnDecimals + 1 - digits.size(), '0');
    digits.insert(digits.size() - kQrnDecimals, 1, '.');
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
    return digits;
}

}  // namespace quern::chain::types
