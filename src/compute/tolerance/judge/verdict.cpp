#include "compute/tolerance/judge/verdict.h"

#include <array>

namespace quern::compute::tolerance::judge {
namespace {

using program::Builder;
using program::Value;
using vm::tensor::arith::ElementOp;

// Words as signed numbers. Errors and bounds that are no numbers from +0 on are told from those that are by their sign
// and by infinity's word, as tolerance::within() does with unsigned ones.
class Verdict {
public:
    explicit Verdict(Builder& b) : b_(b), zero_(b.constant_i32(0)), ok_(b.constant_i32(1)) {}

    void require_within(Value error, Value bound) {
        require_number(bound);
        require(b_.ilt(bound, infinity()));
        require_number(error);
        require_at_most(error, bound);
    }
    void require_number(Value word) { require_at_most(zero_, word); }
    void require_at_most(Value low, Value high) {
        const Value greater = b_.ilt(high, low);
        require(b_.ieq(greater, zero_));
    }
    [[nodiscard]] Value ok() const { return ok_; }

private:
    void require(Value condition) { ok_ = b_.elementwise(ElementOp::iand, {ok_, condition}); }
    Value infinity() { return b_.constant_i32(static_cast<std::int32_t>(kInfinity)); }

    Builder& b_;
    Value zero_;
    Value ok_;
};

}  // namespace

Value build_verdict(Builder& b, const distance::Measures& measures, Value limits) {
    const auto measured = [&](Measure measure) {
        const Value value = measures[static_cast<std::size_t>(measure)];
        return b.bits(value.valid() ? value : b.constant(0.0F));
    };
    const Value words = b.bits(limits);
    const auto limit = [&](std::uint32_t i) { return b.slice(words, {0, 0, 0, i}, program::scalar_shape()); };
    Verdict verdict(b);
    constexpr std::array kCompared{Measure::l2, Measure::linf, Measure::moments, Measure::rest, Measure::loose};
    for (std::uint32_t i = 0; i < kCompared.size(); ++i) {  // in the order of the limits
        const Value error = measured(kCompared[i]);
        verdict.require_within(error, limit(i));
    }
    const Value movement = measured(Measure::movement);
    const Value least = limit(5);
    verdict.require_within(movement, limit(6));
    verdict.require_number(least);
    verdict.require_at_most(least, movement);
    return verdict.ok();
}

}  // namespace quern::compute::tolerance::judge
