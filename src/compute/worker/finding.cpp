#include "compute/worker/finding.h"

#include "base/big_endian.h"
#include "compute/core/history.h"

namespace quern::compute::worker {
namespace {

constexpr std::size_t kDimsBytes = 16;

Bytes join_tiles(const std::vector<vm::tensor::Tile>& tiles) {
    Bytes bytes;
    for (const auto& tile : tiles) append(bytes, vm::tensor::tile_bytes(tile));
    return bytes;
}

// Hashes, and their tiles if they were not too many.
Status unpack_tiles(const Bytes& hashes, const Bytes& words, const char* error, Finding& finding) {
    finding.probe_hashes = split_roots(hashes);
    if (words.empty()) return {};
    constexpr std::size_t kBytes = vm::tensor::kTileBytes;
    if (words.size() != kBytes * finding.probe_hashes.size()) return fault(error);
    for (std::size_t at = 0; at < words.size(); at += kBytes) {
        QUERN_TRY(const auto tile, vm::tensor::tile_from_bytes(BytesView(words).subspan(at, kBytes)));
        finding.probe_tiles.push_back(tile);
    }
    return {};
}

}  // namespace

Hash32 Finding::rival_root() const { return pass ? Hash32{} : core::history_root(history); }

SavedReport pack_report(const Finding& finding) {
    SavedReport saved;
    saved.pass = finding.pass;
    saved.rival_root = finding.rival_root();
    saved.randomness = finding.secret;
    if (!finding.pass) saved.history = join_roots(finding.history);
    for (const auto& probe : finding.probes) {
        for (const std::uint32_t dim : probe.shape.dims) append_big_endian(saved.probe_dims, dim, sizeof dim);
        saved.probe_tiles.push_back(probe.tile);
        append(saved.probe_words, vm::tensor::tile_bytes(probe.words));
    }
    saved.wrong_step = finding.wrong_step;
    saved.peer_secret = finding.peer_secret;
    saved.peer_probes = join_roots(finding.probe_hashes);
    saved.peer_words = join_tiles(finding.probe_tiles);
    return saved;
}

Expected<Finding> unpack(const SavedReport& saved) {
    Finding finding;
    finding.pass = saved.pass;
    finding.history = split_roots(saved.history);
    finding.secret = saved.randomness;
    finding.probes.resize(saved.probe_tiles.size());
    if (saved.probe_dims.size() != kDimsBytes * finding.probes.size() ||
        saved.probe_words.size() != std::size_t{vm::tensor::kTileBytes} * finding.probes.size() ||
        finding.rival_root() != saved.rival_root)
        return fault("worker.bad_saved_report");
    for (std::size_t i = 0; i < finding.probes.size(); ++i) {
        core::ProbeResult& probe = finding.probes[i];
        for (std::size_t d = 0; d < probe.shape.dims.size(); ++d)
            probe.shape.dims[d] = static_cast<std::uint32_t>(
                from_big_endian(BytesView(saved.probe_dims).subspan(kDimsBytes * i + 4 * d, 4)));
        probe.tile = saved.probe_tiles[i];
        QUERN_TRY(probe.words,
                  vm::tensor::tile_from_bytes(
                      BytesView(saved.probe_words).subspan(vm::tensor::kTileBytes * i, vm::tensor::kTileBytes)));
    }
    finding.wrong_step = saved.wrong_step;
    finding.peer_secret = saved.peer_secret;
    QUERN_CHECK(unpack_tiles(saved.peer_probes, saved.peer_words, "worker.bad_saved_report", finding));
    return finding;
}

SavedWatch pack_watch(const Finding& finding) {
    SavedWatch saved;
    saved.wrong_step = finding.wrong_step;
    if (!finding.pass) saved.history = join_roots(finding.history);
    saved.probes = join_roots(finding.probe_hashes);
    saved.secret = finding.secret;
    saved.probe_words = join_tiles(finding.probe_tiles);
    return saved;
}

Expected<Finding> unpack(const SavedWatch& saved) {
    Finding finding;
    finding.pass = saved.wrong_step == 0;
    finding.wrong_step = saved.wrong_step;
    finding.history = split_roots(saved.history);
    finding.secret = saved.secret;
    QUERN_CHECK(unpack_tiles(saved.probes, saved.probe_words, "worker.bad_saved_watch", finding));
    return finding;
}

Bytes join_roots(const std::vector<Hash32>& roots) {
    Bytes bytes;
    bytes.reserve(Hash32::kSize * roots.size());
    for (const auto& root : roots) append(bytes, root);
    return bytes;
}

std::vector<Hash32> split_roots(BytesView bytes) {
    std::vector<Hash32> roots;
    roots.reserve(bytes.size() / Hash32::kSize);
    for (std::size_t i = 0; i + Hash32::kSize <= bytes.size(); i += Hash32::kSize)
        roots.push_back(Hash32::copy_of(bytes.subspan(i, Hash32::kSize)));
    return roots;
}

}  // namespace quern::compute::worker
