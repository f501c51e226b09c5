#include "compute/torch/word_ops.h"

#include <array>
#include <limits>

namespace quern::compute::torch_backend {
namespace {

using vm::tensor::arith::ElementOp;

constexpr std::int64_t kLow = 0xffffffff;  // of an int64

at::Tensor wide(const at::Tensor& x) { return x.to(at::kLong); }
at::Tensor low_of(const at::Tensor& wide) { return at::bitwise_and(wide, kLow); }
at::Tensor unsigned_of(const at::Tensor& x) { return low_of(wide(x)); }
at::Tensor high_of(const at::Tensor& product) { return low_of(at::bitwise_right_shift(product, 32)); }
// Takes the low 32 bits.
at::Tensor narrow(const at::Tensor& wide) { return wide.to(at::kInt); }

at::Tensor count_of(const at::Tensor& shifts) { return at::bitwise_and(shifts, std::int64_t{31}); }

// Wide, since INT_MIN / -1 traps in 32 bits on some processors; by 1 where the definition says that x / 0 is 0.
at::Tensor quotient_of(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor by_zero = at::eq(b, 0);
    const at::Tensor found = at::div(wide(a), at::where(by_zero, at::ones_like(b), b), "trunc");
    return narrow(at::where(by_zero, at::zeros_like(found), found));
}
at::Tensor remainder_of(const at::Tensor& a, const at::Tensor& b) {
    return narrow(at::fmod(wide(a), wide(at::where(at::eq(b, 0), at::ones_like(b), b))));
}

// The largest float below 2^31 is the last that can be converted.
at::Tensor nearest(const at::Tensor& x) {
    const at::Tensor known = at::where(at::ne(x, x), at::zeros_like(x), x);
    const at::Tensor whole = at::round(at::clamp(known, -0x1p31, 0x1p31 - 128)).to(at::kInt);
    const at::Tensor most = at::full_like(whole, std::int64_t{std::numeric_limits<std::int32_t>::max()});
    return at::where(at::ge(known, 0x1p31), most, whole);
}

}  // namespace

std::optional<at::Tensor> word_op(ElementOp op, const std::vector<at::Tensor>& in) {
    switch (op) {
        case ElementOp::idiv:
            return quotient_of(in[0], in[1]);
        case ElementOp::irem:
            return remainder_of(in[0], in[1]);
        case ElementOp::iand:
            return at::bitwise_and(in[0], in[1]);
        case ElementOp::ior:
            return at::bitwise_or(in[0], in[1]);
        case ElementOp::ixor:
            return at::bitwise_xor(in[0], in[1]);
        case ElementOp::ishl:
            return narrow(at::bitwise_left_shift(wide(in[0]), wide(count_of(in[1]))));
        case ElementOp::ishr:
            return narrow(at::bitwise_right_shift(unsigned_of(in[0]), wide(count_of(in[1]))));
        case ElementOp::isar:
            return at::bitwise_right_shift(in[0], count_of(in[1]));
        case ElementOp::imin:
            return at::minimum(in[0], in[1]);
        case ElementOp::imax:
            return at::maximum(in[0], in[1]);
        case ElementOp::f2i:
            return nearest(in[0]);
        case ElementOp::bits:
            return in[0].contiguous().view(at::kInt);
        default:
            return std::nullopt;
    }
}

// As philox4x32_10() has it, each word in an int64 from 0 on: of a product of two the low 64 bits are all.
at::Tensor philox_words(const at::Tensor& key_counter, std::int64_t count, bool four_of_a_call) {
    const at::Tensor given = unsigned_of(key_counter.reshape({-1}));
    at::Tensor k0 = given[0];
    at::Tensor k1 = given[1];
    const std::int64_t calls = four_of_a_call ? (count + 3) / 4 : count;
    const at::TensorOptions options = given.options();
    std::array<at::Tensor, 4> counter{at::arange(calls, options), given[2], given[3],
                                      at::full({}, std::int64_t{four_of_a_call ? 1 : 0}, options)};
    for (int round = 0; round < 10; ++round) {
        const at::Tensor p0 = at::mul(counter[0], std::int64_t{0xD2511F53});
        const at::Tensor p1 = at::mul(counter[2], std::int64_t{0xCD9E8D57});
        counter = {at::bitwise_xor(at::bitwise_xor(high_of(p1), counter[1]), k0), low_of(p1),
                   at::bitwise_xor(at::bitwise_xor(high_of(p0), counter[3]), k1), low_of(p0)};
        k0 = low_of(at::add(k0, std::int64_t{0x9E3779B9}));
        k1 = low_of(at::add(k1, std::int64_t{0xBB67AE85}));
    }
    if (!four_of_a_call) return narrow(counter[0]);
    return narrow(at::stack({counter[0], counter[1], counter[2], counter[3]}, 1).reshape({-1}).narrow(0, 0, count));
}

}  // namespace quern::compute::torch_backend
