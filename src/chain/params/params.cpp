#include "chain/params/params.h"

#include "base/ensure.h"
#include "chain/types/native_kinds.h"

namespace quern::chain::params {

NativeGas native_gas(types::NativeKind kind) {
    const auto* info = types::find_kind(static_cast<std::uint8_t>(kind));
    ensure(info != nullptr, "the native kind is known");
    return {info->gas, info->gas_per_byte};
}

types::Address reserved_address(types::NativeKind kind) { return types::group_address(types::group_of(kind)); }

}  // namespace quern::chain::params
