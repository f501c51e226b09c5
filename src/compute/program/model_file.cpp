#include "compute/program/model_file.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "base/fs.h"
#include "base/json.h"
#include "compute/program/arch_json.h"
#include "compute/program/onnx_file.h"
#include "compute/program/torchscript_file.h"

namespace quern::compute::program {
namespace {

constexpr std::size_t kMaxDescriptionBytes = 1U << 20;

Expected<Network> read_file(const std::string& path, const TorchscriptInput& input) {
    if (is_torchscript_name(path)) {
        auto network = read_torchscript(path, input);
        if (!network) return detailed(network.error(), path + ": " + network.error().detail);
        return network;
    }
    QUERN_TRY(const Bytes bytes, fs::read_file(path, kMaxOnnxBytes));
    auto network = read_onnx(bytes);
    if (!network) return detailed(network.error(), path + ": " + network.error().detail);
    return network;
}

TorchscriptInput input_of(const LayersSpec& model) {
    if (model.input == LayersSpec::Input::image)
        return {{model.channels, model.image.height, model.image.width}, false};
    return {{model.channels}, model.input == LayersSpec::Input::tokens};
}

// "3x32x32", or what stands beside the data: an image's height, width and channels, an array's shape.
Expected<TorchscriptInput> chosen_input(const std::vector<std::string>& data, const FitChoices& choices) {
    TorchscriptInput input;
    std::string_view rest = choices.example;
    for (bool more = !rest.empty(); more;) {
        const std::size_t end = rest.find('x');
        const std::string_view part = rest.substr(0, end);
        std::uint64_t dim = 0;
        const auto read = std::from_chars(part.data(), part.data() + part.size(), dim);
        if (read.ec != std::errc{} || read.ptr != part.data() + part.size() || dim == 0 ||
            input.dims.size() == kMaxNetworkRank)
            return fail("fit.unknown_dims", "--example " + choices.example + ": dims are as 3x32x32");
        input.dims.push_back(dim);
        more = end != std::string_view::npos;
        if (more) rest.remove_prefix(end + 1);
    }
    if (!input.dims.empty() || data.empty()) return input;
    const auto text = fs::read_text_file(data[0] + ".json", kMaxDescriptionBytes);
    const auto description = text ? json::parse(*text, {kMaxDescriptionBytes, 16}) : json::Value();
    if (!description || !description->is_object()) return input;
    const auto number = [&](std::string_view key) {
        const json::Value* const value = description->find(key);
        return value == nullptr ? 0 : value->as_u64().value_or(0);
    };
    if (number("height") != 0) {
        input.dims = {number("channels"), number("height"), number("width")};
    } else if (const json::Value* const shape = description->find("shape"); shape != nullptr) {
        if (const auto dims = shape->as_array())
            for (std::size_t i = 1; i < dims->size(); ++i) input.dims.push_back((*dims)[i].as_u64().value_or(0));
    }
    return input;
}

Expected<Network> read_beside(const std::filesystem::path& folder, const LayersSpec& model) {
    const std::string& name = model.network_file;
    const std::filesystem::path file(name);
    bool outside = file.is_absolute();
    for (const std::filesystem::path& part : file) outside = outside || part == "..";
    if (outside) return fail("arch.outside", name + " is not beside the architecture file or below it");
    std::error_code error;  // whoever wrote the architecture chose the name: a pipe would be waited for
    if (std::filesystem::exists(folder / file, error) && !std::filesystem::is_regular_file(folder / file, error))
        return fail("arch.no_file", name + " is no file");
    return read_file((folder / file).string(), input_of(model));
}

Expected<Architecture> with_network(Architecture architecture, Network network, const std::string& path) {
    architecture.layers().network = std::make_shared<const Network>(std::move(network));
    if (const Status status = check_architecture(architecture); !status)
        return detailed(status.error(), path + ": " + status.error().detail);
    return architecture;
}

Expected<std::vector<DataFile>> look_at(const std::vector<std::string>& paths) {
    std::vector<DataFile> files;
    for (const std::string& path : paths) {
        DataFile each;
        QUERN_TRY(each.bytes, fs::file_size(path));
        if (auto text = fs::read_text_file(path + ".json", kMaxDescriptionBytes)) each.description = std::move(*text);
        files.push_back(std::move(each));
    }
    return files;
}

}  // namespace

bool is_network_name(const std::string& path) { return path.ends_with(".onnx") || is_torchscript_name(path); }

Expected<Network> read_network(const std::string& path, const std::vector<std::string>& data,
                               const FitChoices& choices) {
    QUERN_TRY(const TorchscriptInput input, chosen_input(data, choices));
    if (is_torchscript_name(path) && input.dims.empty())
        return fail("fit.unknown_dims",
                    path + " does not say how large an example is: --example 3x32x32, or 64 of tokens");
    return read_file(path, input);
}

Expected<std::string> fit_architecture(const Network& network, const std::string& file,
                                       const std::vector<std::string>& data, const FitChoices& choices,
                                       const std::vector<std::string>& held_out) {
    QUERN_TRY(const std::vector<DataFile> files, look_at(data));
    QUERN_TRY(const std::vector<DataFile> others, look_at(held_out));
    return fit_architecture(network, file, files, choices, others);
}

Expected<Architecture> read_architecture(const std::string& path) {
    QUERN_TRY(const std::string text, fs::read_text_file(path, kMaxArchitectureBytes));
    auto architecture = parse_architecture(text);
    if (!architecture) return detailed(architecture.error(), path + ": " + architecture.error().detail);
    if (architecture->is_transformer() || architecture->layers().network_file.empty()) return architecture;
    QUERN_TRY(Network network, read_beside(std::filesystem::path(path).parent_path(), architecture->layers()));
    return with_network(std::move(*architecture), std::move(network), path);
}

Expected<Architecture> read_model(const std::string& path, const std::vector<std::string>& data,
                                  const FitChoices& choices, const std::vector<std::string>& held_out) {
    if (!is_network_name(path)) return read_architecture(path);
    QUERN_TRY(Network network, read_network(path, data, choices));
    QUERN_TRY(const std::string text, fit_architecture(network, path, data, choices, held_out));
    QUERN_TRY(Architecture architecture, parse_architecture(text));
    return with_network(std::move(architecture), std::move(network), path);
}

std::string onnx_file_of(const std::string& path, const Architecture& model) {
    if (is_torchscript_name(path) || model.is_transformer()) return {};
    const std::string& name = model.layers().network_file;
    if (is_network_name(path)) return path;
    if (name.empty() || is_torchscript_name(name)) return {};
    return (std::filesystem::path(path).parent_path() / name).string();
}

}  // namespace quern::compute::program
