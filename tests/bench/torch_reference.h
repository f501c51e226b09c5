// libtorch's side of the comparisons: plain torch code that knows nothing of Quern's programs, save that it starts from
// the same parameters and sees the same batches. No torch header is included here. Thread counts are the process's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/training_game.h"

namespace quern::bench {

// C = A B on square matrices of random numbers.
class TorchMatmul {
public:
    TorchMatmul(std::size_t m, std::size_t n, std::size_t k);
    ~TorchMatmul();
    void run();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

enum class Chain : std::uint8_t { exp, tanh, sigmoid, add, softmax };
// One elementwise op, or a softmax of rows, on [rows, columns].
class TorchElementwise {
public:
    TorchElementwise(Chain chain, std::size_t rows, std::size_t columns);
    ~TorchElementwise();
    void run();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The demo's transformer as one writes it for torch: addmm, layer_norm, gelu, softmax, cross_entropy_loss, autograd and
// torch's AdamW, in float32.
class TorchTransformer {
public:
    // Starts from the training's S_0.
    TorchTransformer(const compute::program::Architecture& architecture, const test::Training& training);
    TorchTransformer(TorchTransformer&&) noexcept;
    TorchTransformer& operator=(TorchTransformer&&) = delete;
    ~TorchTransformer();
    // One training step on the batch that the step program takes at this step; the loss before the update.
    double step();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// A small network for images as one writes it for torch: three convolutions with ReLU and pooling, the mean over all
// places, a linear layer; cross_entropy_loss, autograd and torch's AdamW, in float32 and torch's own layout.
class TorchConvolution {
public:
    // Starts from the training's S_0, whose layers are these.
    TorchConvolution(const compute::program::Architecture& architecture, const test::Training& training);
    TorchConvolution(TorchConvolution&&) noexcept;
    TorchConvolution& operator=(TorchConvolution&&) = delete;
    ~TorchConvolution();
    // One training step on the batch that the step program takes at this step; the loss before the update.
    double step();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::bench
