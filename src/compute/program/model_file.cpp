#include "compute/program/model_file.h"

#include <filesystem>
#include <utility>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/onnx_file.h"

namespace quern::compute::program {
namespace {

Expected<Network> read_network(const std::filesystem::path& folder, const std::string& name) {
    const std::filesystem::path file(name);
    bool outside = file.is_absolute();
    for (const std::filesystem::path& part : file) outside = outside || part == "..";
    if (outside) return fail("arch.outside", name + " is not beside the architecture file or below it");
    const std::string path = (folder / file).string();
    QUERN_TRY(const Bytes bytes, fs::read_file(path, kMaxOnnxBytes));
    auto network = read_onnx(bytes);
    if (!network) return detailed(network.error(), path + ": " + network.error().detail);
    return network;
}

}  // namespace

Expected<Architecture> read_architecture(const std::string& path) {
    QUERN_TRY(const std::string text, fs::read_text_file(path, kMaxArchitectureBytes));
    auto architecture = parse_architecture(text);
    if (!architecture) return detailed(architecture.error(), path + ": " + architecture.error().detail);
    if (architecture->is_transformer()) return architecture;
    LayersSpec& model = architecture->layers();
    if (model.network_file.empty()) return architecture;
    QUERN_TRY(Network network, read_network(std::filesystem::path(path).parent_path(), model.network_file));
    model.network = std::make_shared<const Network>(std::move(network));
    if (const Status status = check_architecture(*architecture); !status)
        return detailed(status.error(), path + ": " + status.error().detail);
    return architecture;
}

}  // namespace quern::compute::program
