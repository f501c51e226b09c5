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

constexpr auto kReserved = std::to_array<ReservedKind>({
    {0x39, "round_post"},
    {0x3a, "round_have"},
    {0x3b, "seat_join"},
    {0x3c, "keys"},  // to 0x3f: their release, and wraps for those who take part
    {0x3d, "keys"},
    {0x3e, "keys"},
    {0x3f, "keys"},
    {0x43, "custody_claim"},
    {0x44, "custody_release"},
    {0x61, "voucher"},
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

std::span<const ReservedKind> reserved_kinds() { return kReserved; }

const ReservedKind* find_reserved_kind(std::uint8_t number) {
    for (const auto& reserved : kReserved)
        if (reserved.number == number) return &reserved;
    return nullptr;
}

Expected<const NativeKindInfo*> active_kind(std::uint8_t number) {
    if (const auto* info = find_kind(number)) return info;
    if (const auto* reserved = find_reserved_kind(number))
        return fail("native.reserved_kind", std::string(reserved->name) + " is not active yet");
    return fail("native.unknown_kind", std::to_string(number));
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
