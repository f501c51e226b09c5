// TorchScript archives, from the archive to the network's message: libtorch's readers of records, pickles and source
// text, then the interpreter of this project. All in sandboxed processes, of which a signal is an ending like another.
#include "base/fs.h"
#include "compute/program/network_lowering.h"
#include "compute/program/onnx_file.h"
#include "fuzz/target.h"
#include "support/converted_archive.h"
#include "support/crc32.h"

namespace quern::fuzz {
namespace {

namespace program = compute::program;

constexpr int kMilliseconds = 60'000;

std::uint64_t number_at(const Bytes& file, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | file[at + i];
    return value;
}

// Stored records with the checksums that their content has, in their own headers and in the directory's, or no change
// would get past them (PKWARE's APPNOTE, 4.3.7 and 4.3.12).
Bytes with_right_checksums(BytesView input) {
    constexpr std::size_t kDirectoryHeader = 46;
    constexpr std::size_t kLocalHeader = 30;
    Bytes file(input.begin(), input.end());
    for (std::size_t at = 0; at + kDirectoryHeader <= file.size(); ++at) {
        if (number_at(file, at, 4) != 0x02014b50 || number_at(file, at + 10, 2) != 0) continue;
        const std::uint64_t size = number_at(file, at + 20, 4);
        const std::uint64_t local = number_at(file, at + 42, 4);
        if (local + kLocalHeader > file.size()) continue;
        const std::uint64_t content =
            local + kLocalHeader + number_at(file, local + 26, 2) + number_at(file, local + 28, 2);
        if (content > file.size() || size > file.size() - content) continue;
        const std::uint32_t crc = test::crc_of(BytesView(file).subspan(content, size));
        for (std::size_t i = 0; i < 4; ++i)
            file[at + 16 + i] = file[local + 14 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    }
    return file;
}

// It ends in time with a network, a name or a signal, and a network is one that importers read, or refuse by name.
bool run_torchscript(BytesView input) {
    const test::Ending ending = test::converted_archive(with_right_checksums(input), {"6", false}, kMilliseconds);
    QUERN_PROPERTY(ending.in_time);
    if (ending.code < 0) return false;
    if (ending.code != 0) {
        QUERN_PROPERTY(ending.code == compute::torchscript::kChildFailed);
        QUERN_PROPERTY(ending.complaint.starts_with("torchscript.") || ending.complaint.starts_with("zip."));
        QUERN_PROPERTY(ending.output.empty());
        return false;
    }
    const auto network = program::read_onnx(as_bytes(ending.output));
    if (!network) {
        QUERN_PROPERTY(network.error().name.starts_with("onnx."));
        return false;
    }
    program::Builder b;
    const auto x = b.slot("x", program::DType::f32, program::matrix_shape(2, 6), program::Initializer::zeros());
    program::LayersSlots slots;
    const auto key = b.seed();
    const auto y = program::apply_network(b, *network, {}, {x, 2, {}}, {true, key}, slots).rows;
    QUERN_PROPERTY(b.failed() || y.valid());
    return true;
}

std::vector<Seed> seeds_torchscript() {
    std::vector<Seed> seeds;
    for (const char* const name : {"small", "bad-of-data", "bad-raises", "bad-terabyte"}) {
        const auto file = fs::read_file(std::string(QUERN_TORCHSCRIPT_VECTORS) + "/" + name + ".pt", 1U << 20);
        QUERN_ACCEPTED(file);
        seeds.push_back({name, *file});
    }
    return seeds;
}

}  // namespace

std::span<const Target> all_targets() {
    static constexpr Target kTargets[] = {{"torchscript", run_torchscript, seeds_torchscript, 16384, 20}};
    return kTargets;
}

}  // namespace quern::fuzz
