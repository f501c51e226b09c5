// The functions of each native kind, and the dispatch over them. A kind's functions stand in the file of its
// group: staking.cpp, evidence.cpp, roles.cpp, tasks.cpp, profiling.cpp, verification.cpp, challenges.cpp,
// disputes.cpp, held.cpp, tick.cpp. Used by tx_executor, by one thread.
#pragma once

#include <memory>

#include "chain/exec/handlers/context.h"
#include "chain/types/native_kinds.h"

namespace quern::chain::exec::handlers {

// check_form: what the payload alone decides. check_state: reads only; what it found, decoded, is `Prepared`. apply:
// writes, going on with that; what it wrote is undone by the caller when it fails. outlay: what it takes from the
// sender's balance besides gas. A kind defines its Prepared beside the functions and ends with QUERN_DEFINE_RUN.
template <types::NativeKind kind>
struct Handler;

#define QUERN_DECLARE_HANDLER(name, group, payload, function, gas, gas_per_byte)            \
    template <>                                                                             \
    struct Handler<types::NativeKind::name> {                                               \
        using Payload = types::payload;                                                     \
        struct Prepared;                                                                    \
        static Status check_form(const params::MarketParams& market, const Payload& data);  \
        static Expected<Prepared> check_state(const Context& context, const Payload& data); \
        static Status apply(Context& context, const Payload& data, Prepared&& prepared);    \
        static Status would_run(const Context& context, const Payload& data);               \
        static Status run(Context& context, const Payload& data);                           \
        static Uint256 outlay(const params::MarketParams& market, const Payload& data);     \
    };
QUERN_NATIVE_KINDS(QUERN_DECLARE_HANDLER)
#undef QUERN_DECLARE_HANDLER

// Where Prepared is known. `taken` is outlay's expression of `data` and `market`; kNothing for a kind that takes
// nothing.
inline const Uint256 kNothing{};
#define QUERN_DEFINE_RUN(name, taken)                                                                     \
    Status Handler<types::NativeKind::name>::would_run(const Context& context, const Payload& data) {     \
        QUERN_CHECK(check_state(context, data));                                                          \
        return {};                                                                                        \
    }                                                                                                     \
    Status Handler<types::NativeKind::name>::run(Context& context, const Payload& data) {                 \
        QUERN_TRY(auto prepared, check_state(context, data));                                             \
        return apply(context, data, std::move(prepared));                                                 \
    }                                                                                                     \
    Uint256 Handler<types::NativeKind::name>::outlay([[maybe_unused]] const params::MarketParams& market, \
                                                     [[maybe_unused]] const Payload& data) {              \
        return taken;                                                                                     \
    }

// A payload whose form is good, decoded: judging a transaction decodes it once, whatever follows.
class CheckedCall {
public:
    virtual ~CheckedCall() = default;
    // check_state: whether it would run on this state.
    [[nodiscard]] virtual Status would_run(const Context& context) const = 0;
    // check_state and apply.
    [[nodiscard]] virtual Status run(Context& context) const = 0;
};
// Decodes an RLP payload and checks its form. Errors: native.unknown_kind, native.reserved_kind, rlp.*,
// record.unknown_version, and the kind's own.
[[nodiscard]] Expected<std::unique_ptr<const CheckedCall>> decode_native(const params::MarketParams& market,
                                                                         std::uint8_t kind, BytesView payload);

}  // namespace quern::chain::exec::handlers
