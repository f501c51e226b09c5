// The three functions of each native kind, and the dispatch over them. A kind's functions stand in the file of its
// group: staking.cpp, evidence.cpp, roles.cpp, tasks.cpp, verification.cpp, challenges.cpp,
// disputes.cpp, tick.cpp. Used by tx_executor, by one thread.
#pragma once

#include "chain/exec/handlers/context.h"
#include "chain/types/native_kinds.h"

namespace quern::chain::exec::handlers {

// check_form: what the payload alone decides. check_state: reads only. apply: writes; what it wrote is undone by the
// caller when it fails.
template <types::NativeKind kind>
struct Handler;

#define QUERN_DECLARE_HANDLER(name, group, payload, function)                                     \
    template <>                                                                                   \
    struct Handler<types::NativeKind::name> {                                                     \
        static Status check_form(const params::MarketParams& market, const types::payload& data); \
        static Status check_state(const Context& context, const types::payload& data);            \
        static Status apply(Context& context, const types::payload& data);                        \
    };
QUERN_NATIVE_KINDS(QUERN_DECLARE_HANDLER)
#undef QUERN_DECLARE_HANDLER

// Decodes the RLP payload and checks its form. Errors: native.unknown_kind, rlp.*, and the kind's own.
[[nodiscard]] Status check_native_form(const params::MarketParams& market, std::uint8_t kind, BytesView payload);
// check_form and check_state: whether it would run on this state.
[[nodiscard]] Status check_native_state(const Context& context, types::NativeKind kind, BytesView payload);
// check_form, check_state, apply.
[[nodiscard]] Status run_native(Context& context, types::NativeKind kind, BytesView payload);

}  // namespace quern::chain::exec::handlers
