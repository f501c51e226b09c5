#include "chain/exec/handlers/handler.h"

namespace quern::chain::exec::handlers {
namespace {

template <types::NativeKind kind>
class CallOf final : public CheckedCall {
public:
    using Payload = typename Handler<kind>::Payload;
    explicit CallOf(Payload data) : data_(std::move(data)) {}
    Status would_run(const Context& context) const override { return Handler<kind>::would_run(context, data_); }
    Status run(Context& context) const override { return Handler<kind>::run(context, data_); }

private:
    Payload data_;
};

}  // namespace

Expected<std::unique_ptr<const CheckedCall>> decode_native(const params::MarketParams& market, std::uint8_t kind,
                                                           BytesView payload) {
    using Call = std::unique_ptr<const CheckedCall>;
    QUERN_TRY(const auto* info, types::active_kind(kind));
    return types::visit_kind(info->kind, [&](auto constant, auto tag) -> Expected<Call> {
        QUERN_TRY(auto data, types::decode_record<typename decltype(tag)::Payload>(payload));
        QUERN_CHECK(Handler<decltype(constant)::value>::check_form(market, data));
        return Call(std::make_unique<CallOf<decltype(constant)::value>>(std::move(data)));
    });
}

}  // namespace quern::chain::exec::handlers
