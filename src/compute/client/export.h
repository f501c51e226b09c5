// The files that a trained model is exported to: safetensors, and of a model that came as ONNX a copy of that file with
// the trained words. Used by quern-train. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/client/options.h"
#include "compute/program/architecture.h"
#include "vm/tensor/executor.h"

namespace quern::compute::client {

// The ONNX file that a model came in, as it was when the training was prepared.
struct GivenOnnx {
    std::string path;
    Hash32 id;  // of its content
};

// Of the model that `options.model` is, where `options.export_onnx` asks for a copy. Before anything is trained or paid
// it is looked at whether there can be one. Errors: train.no_onnx (the model is no network of an ONNX file),
// train.same_file (the copy would take the place of a file that is needed), train.out_is_a_folder, train.no_folder,
// fs.*.
[[nodiscard]] Expected<std::optional<GivenOnnx>> given_onnx(const TrainOptions& options,
                                                            const program::Architecture& model);

struct Export {
    std::string path;
    Bytes content;
};
// What is to be written of a final state, `options.out` first. Errors: train.model_changed (the file that was given is
// another now), fs.*, those of export_model() and export_onnx().
[[nodiscard]] Expected<std::vector<Export>> exports_of(const TrainOptions& options, const vm::tensor::Program& program,
                                                       const std::optional<GivenOnnx>& given,
                                                       const vm::tensor::State& state);

}  // namespace quern::compute::client
