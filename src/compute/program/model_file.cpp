#include "compute/program/model_file.h"

#include <filesystem>
#include <utility>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/onnx_file.h"

namespace quern::compute::program {
namespace {

constexpr std::size_t kMaxDescriptionBytes = 1U << 20;

Expected<Network> read_beside(const std::filesystem::path& folder, const std::string& name) {
    const std::filesystem::path file(name);
    bool outside = file.is_absolute();
    for (const std::filesystem::path& part : file) outside = outside || part == "..";
    if (outside) return fail("arch.outside", name + " is not beside the architecture file or below it");
    return read_network((folder / file).string());
}

Expected<Architecture> with_network(Architecture architecture, Network network, const std::string& path) {
    architecture.layers().network = std::make_shared<const Network>(std::move(network));
    if (const Status status = check_architecture(architecture); !status)
        return detailed(status.error(), path + ": " + status.error().detail);
    return architecture;
}

}  // namespace

Expected<Network> read_network(const std::string& path) {
    QUERN_TRY(const Bytes bytes, fs::read_file(path, kMaxOnnxBytes));
    auto network = read_onnx(bytes);
    if (!network) return detailed(network.error(), path + ": " + network.error().detail);
    return network;
}

Expected<std::string> fit_architecture(const Network& network, const std::string& file,
                                       const std::vector<std::string>& data, const FitChoices& choices) {
    std::vector<DataFile> files;
    for (const std::string& path : data) {
        DataFile each;
        QUERN_TRY(each.bytes, fs::file_size(path));
        if (auto text = fs::read_text_file(path + ".json", kMaxDescriptionBytes)) each.description = std::move(*text);
        files.push_back(std::move(each));
    }
    return fit_architecture(network, file, files, choices);
}

Expected<Architecture> read_architecture(const std::string& path) {
    QUERN_TRY(const std::string text, fs::read_text_file(path, kMaxArchitectureBytes));
    auto architecture = parse_architecture(text);
    if (!architecture) return detailed(architecture.error(), path + ": " + architecture.error().detail);
    if (architecture->is_transformer() || architecture->layers().network_file.empty()) return architecture;
    QUERN_TRY(Network network,
              read_beside(std::filesystem::path(path).parent_path(), architecture->layers().network_file));
    return with_network(std::move(*architecture), std::move(network), path);
}

Expected<Architecture> read_model(const std::string& path, const std::vector<std::string>& data,
                                  const FitChoices& choices) {
    if (std::filesystem::path(path).extension() != ".onnx") return read_architecture(path);
    QUERN_TRY(Network network, read_network(path));
    QUERN_TRY(const std::string text, fit_architecture(network, path, data, choices));
    QUERN_TRY(Architecture architecture, parse_architecture(text));
    return with_network(std::move(architecture), std::move(network), path);
}

}  // namespace quern::compute::program
