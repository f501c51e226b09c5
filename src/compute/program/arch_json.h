// The architecture JSON importer (format "quern-arch-1", doc/program-compiler.md). Used by quern-compile. Pure;
// thread-safe.
#pragma once

#include <string_view>

#include "compute/program/architecture.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxArchitectureBytes = 64U << 10;

// {"format": "quern-arch-1",
//  "model": {"type": "char_transformer", "layers", "d_model", "heads", "context", "mlp_ratio", "vocab",
//            "tie_embeddings", "adapter_rank", "adapter_scale", "positions": "learned" | "rotary" | "none",
//            "norm": "layer" | "rms", "activation": "gelu" | "relu" | "silu" | "swiglu", "kv_heads", "dropout",
//            "experts": {"count", "top", "capacity_factor", "balance"},
//            "precision": "f32" | "int8", "head_precision", "attention_precision", "layer_precision": {name:
//            precision}},
//  "data": {"dtype", "elements"}, "batch", "accumulate", "recompute",
//  "held_out": {"data": as above, "examples", "every"},
//  "optimizer": {"type": "adamw" | "adam" | "lion" | "momentum" | "sgd", "lr", "weight_decay", "warmup", "total_steps",
//                "schedule", "final_lr", "grad_clip"; adamw, adam, lion: "betas": [b1, b2]; adamw, adam: "eps";
//                momentum: "momentum"}}
// Required: of model layers, d_model, heads, context, mlp_ratio and vocab; data, batch, optimizer.type and lr. Or a
// model of layers over the data tensors of inputs and targets:
//  "model": {"type": "layers", "input": {"height", "width", "channels"} | {"features"}, of either "scale" and "shift";
//            "layers": [{"type": "conv2d", "channels", "kernel", ...}, ...], "outputs", "loss", "precision"; linear
//            layers have a "precision" of their own, too},
//  "data": [{"dtype", "elements"}, {"dtype", "elements"}]
// or a network that another tool wrote, in an ONNX file (model_file.h reads it):
//  "model": {"type": "network", "file", "input": as above | {"tokens"}, "outputs", "loss", "frozen": [names],
//            "precision", "layer_precision"},
//  "data": as above; of the loss "next_token" one, as of a transformer. Such an architecture is not checked before its
//  file is read.
// Numbers are read from the text's decimals with one rounding to binary32, whatever the locale. Errors: arch.not_json,
// arch.too_long, arch.unknown_format, arch.unknown_model, arch.unknown_layer, arch.unknown_loss,
// arch.unknown_positions, arch.unknown_norm, arch.unknown_activation, arch.unknown_optimizer, arch.unknown_schedule,
// arch.unknown_precision, arch.missing_field, arch.unknown_field, arch.wrong_type, arch.out_of_range, and those of
// check_architecture().
[[nodiscard]] Expected<Architecture> parse_architecture(std::string_view text);

// What model.loss may say. Error: arch.unknown_loss, with all names.
[[nodiscard]] Expected<LayersSpec::Loss> loss_named(std::string_view name);
// What model.precision may say. Error: arch.unknown_precision, with all names.
[[nodiscard]] Expected<Precision> precision_named(std::string_view name);

}  // namespace quern::compute::program
