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
    if (architecture->is_transformer()) return architecture;
    LayersSpec& model = architecture->layers();
    if (model.network_file.empty()) return architecture;
    QUERN_TRY(Network network, read_beside(std::filesystem::path(path).parent_path(), model.network_file));
    model.network = std::make_shared<const Network>(std::move(network));
    if (const Status status = check_architecture(*architecture); !status)
        return detailed(status.error(), path + ": " + status.error().detail);
    return architecture;
}

}  // namespace quern::compute::program
