#include "compute/client/export.h"

#include <filesystem>

#include "base/fs.h"
#include "compute/program/model_file.h"
#include "compute/program/onnx_file.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"

namespace quern::compute::client {
namespace {

std::filesystem::path whole_path(const std::string& path) {
    std::error_code problem;
    std::filesystem::path whole = std::filesystem::weakly_canonical(path, problem);
    return problem ? std::filesystem::path(path) : whole;
}

Status check_place(const TrainOptions& options, const std::string& given) {
    const std::filesystem::path place = whole_path(options.export_onnx);
    std::vector<std::string> needed{given, options.model, options.out, job_path(options.out)};
    needed.insert(needed.end(), options.data.begin(), options.data.end());
    for (const std::string& path : needed)
        if (whole_path(path) == place)
            return fail("train.same_file", "--export " + options.export_onnx + " would take the place of " + path);
    std::error_code unknown;
    if (std::filesystem::is_directory(place, unknown))
        return fail("train.out_is_a_folder", options.export_onnx + ": --export names a file");
    if (place.has_parent_path() && !std::filesystem::is_directory(place.parent_path(), unknown))
        return fail("train.no_folder", options.export_onnx + ": there is no folder " + place.parent_path().string());
    return {};
}

}  // namespace

Expected<std::optional<GivenOnnx>> given_onnx(const TrainOptions& options, const program::Architecture& model) {
    if (options.export_onnx.empty()) return std::optional<GivenOnnx>();
    const std::string path = program::onnx_file_of(options.model, model);
    if (path.empty())
        return fail(
            "train.no_onnx",
            options.model + " is no network of an ONNX file: its result is safetensors alone, without --export");
    QUERN_CHECK(check_place(options, path));
    QUERN_TRY(const Bytes file, fs::read_file(path, program::kMaxOnnxBytes));
    return std::optional(GivenOnnx{path, crypto::content_id_of(file)});
}

Expected<std::vector<Export>> exports_of(const TrainOptions& options, const vm::tensor::Program& program,
                                         const std::optional<GivenOnnx>& given, const vm::tensor::State& state) {
    std::vector<Export> exports;
    QUERN_TRY(Bytes model, program::export_model(program, state));
    exports.push_back({options.out, std::move(model)});
    if (!given) return exports;
    QUERN_TRY(const Bytes file, fs::read_file(given->path, program::kMaxOnnxBytes));
    if (crypto::content_id_of(file) != given->id)
        return fail("train.model_changed", given->path + " is not what was trained any more: put that back");
    auto onnx = program::export_onnx(program, state, file);
    if (!onnx) return detailed(onnx.error(), options.export_onnx + ": " + onnx.error().detail);
    exports.push_back({options.export_onnx, std::move(*onnx)});
    return exports;
}

}  // namespace quern::compute::client
