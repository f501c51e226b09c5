#include "chain/types/native_kinds.h"

namespace quern::chain::types {
namespace {

constexpr std::uint8_t kReservedPage = 0x51;

constexpr auto kKinds = std::to_array<NativeKindInfo>({
#define QUERN_INFO(name, group, payload, function, gas, gas_per_byte) \
    {NativeKind::name, KindGroup::group, #name, function, gas, gas_per_byte},
    QUERN_NATIVE_KINDS(QUERN_INFO)
#undef QUERN_INFO
});

}  // namespace

std::span<const NativeKindInfo> native_kinds() { return kKinds; }

const NativeKindInfo* find_kind(std::uint8_t number) {
    for (const auto& info : kKinds)
        if (static_cast<std::uint8_t>(info.kind) == number) return &info;
    return nullptr;
}

const NativeKindInfo* find_kind(std::string_view name) {
    for (const auto& info : kKinds)
        if (info.name == name) return &info;
    return nullptr;
}

KindGroup group_of(NativeKind kind) {
    const auto* info = find_kind(static_cast<std::uint8_t>(kind));
    ensure(info != nullptr, "the native kind is known");
    return info->group;
}

Address group_address(KindGroup group) {
    Address address;
    address.data[18] = kReservedPage;
    address.data[19] = static_cast<std::uint8_t>(group);
    return address;
}

std::optional<KindGroup> group_at(const Address& address) {
    for (std::size_t i = 0; i < 18; ++i)
        if (address.data[i] != 0) return std::nullopt;
    const std::uint8_t number = address.data[19];
    if (address.data[18] != kReservedPage || number < static_cast<std::uint8_t>(KindGroup::staking) ||
        number > static_cast<std::uint8_t>(KindGroup::market))
        return std::nullopt;
    return static_cast<KindGroup>(number);
}

}  // namespace quern::chain::types
