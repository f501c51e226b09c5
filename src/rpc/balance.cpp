#include "rpc/balance.h"

#include "chain/types/amount.h"

namespace quern::rpc {

std::string Balance::grains() const {
    const std::string digits = size().to_decimal();
    return is_negative() ? "-" + digits : digits;
}

std::string Balance::qrn() const {
    const std::string digits = chain::types::in_qrn(size());
    return is_negative() ? "-" + digits : digits;
}

}  // namespace quern::rpc
