#include "chain/exec/handlers/handler.h"

namespace quern::chain::exec::handlers {

Status check_native_form(const params::MarketParams& market, std::uint8_t kind, BytesView payload) {
    const auto* info = types::find_kind(kind);
    if (info == nullptr) return fail("native.unknown_kind", std::to_string(kind));
    return types::visit_kind(info->kind, [&](auto constant, auto tag) -> Status {
        QUERN_TRY(const auto data, types::decode_record<typename decltype(tag)::Payload>(payload));
        return Handler<decltype(constant)::value>::check_form(market, data);
    });
}

Status check_native_state(const Context& context, types::NativeKind kind, BytesView payload) {
    return types::visit_kind(kind, [&](auto constant, auto tag) -> Status {
        using H = Handler<decltype(constant)::value>;
        QUERN_TRY(const auto data, types::decode_record<typename decltype(tag)::Payload>(payload));
        QUERN_CHECK(H::check_form(context.market(), data));
        return H::check_state(context, data);
    });
}

Status run_native(Context& context, types::NativeKind kind, BytesView payload) {
    return types::visit_kind(kind, [&](auto constant, auto tag) -> Status {
        using H = Handler<decltype(constant)::value>;
        QUERN_TRY(const auto data, types::decode_record<typename decltype(tag)::Payload>(payload));
        QUERN_CHECK(H::check_form(context.market(), data));
        QUERN_CHECK(H::check_state(context, data));
        return H::apply(context, data);
    });
}

}  // namespace quern::chain::exec::handlers
