// An op as a step program of its own, run as training runs it. Used by the benchmarks of ops. One thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "compute/program/builder.h"
#include "compute/program/initial_state.h"
#include "vm/tensor/executor.h"

namespace quern::bench {

// y := op(inputs): slots for the inputs, which keep their values, those that the op makes, and one for the result.
class OneOp {
public:
    using Op =
        std::function<compute::program::Value(compute::program::Builder&, const std::vector<compute::program::Value>&)>;
    OneOp(const std::vector<vm::tensor::Shape>& inputs, const Op& op, vm::tensor::arith::Backend backend,
          ThreadPool* pool) {
        using compute::program::Initializer;
        using vm::tensor::DType;
        compute::program::Builder b;
        std::vector<compute::program::Value> values;
        for (const vm::tensor::Shape& shape : inputs)
            values.push_back(
                b.slot("input" + std::to_string(values.size()), DType::f32, shape, Initializer::normal(1.0F)));
        const compute::program::Value result = op(b, values);
        b.update(b.slot("result", b.type(result).dtype, b.shape(result), Initializer::zeros()), result);
        b.set_loss_slot(b.slot("loss", DType::f32, compute::program::scalar_shape(), Initializer::zeros()));
        built_ = must(b.finish(), "program");
        state_ = compute::program::initial_state(built_, 1);
        seed_ = vm::tensor::seed_tensor(Hash32{});
        executor_ = std::make_unique<vm::tensor::Executor>(built_.program, backend, pool);
    }
    OneOp(const OneOp&) = delete;  // the executor refers to the program
    OneOp& operator=(const OneOp&) = delete;
    void run() { executor_->step(state_, data_, seed_); }
    // An input's words, one after the other, or of a slot that the op made, numbered from the inputs on.
    void fill(std::size_t input, const std::function<std::uint32_t()>& word) {
        std::generate(state_[input].words.begin(), state_[input].words.end(), word);
    }

private:
    compute::program::BuiltProgram built_;
    vm::tensor::State state_;
    vm::tensor::MemoryData data_;
    vm::tensor::Tensor seed_;
    std::unique_ptr<vm::tensor::Executor> executor_;
};

}  // namespace quern::bench
