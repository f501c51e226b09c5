#include "compute/core/verification_report.h"

#include <algorithm>
#include <set>

#include "base/big_endian.h"
#include "compute/core/history.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::compute::core {

using crypto::MerkleTag;

namespace {

// The i-th of the four big-endian 64-bit words of a hash.
std::uint64_t word(const Hash32& hash, std::size_t i) { return from_big_endian(hash.view().subspan(8 * i, 8)); }

Hash32 verdict_leaf(bool pass, const Hash32& rival_root) {
    const std::array<std::uint8_t, 1> verdict{static_cast<std::uint8_t>(pass ? 1 : 0)};
    Bytes bytes(verdict.begin(), verdict.end());
    append(bytes, rival_root);
    return crypto::merkle_leaf(bytes);
}

// A value of its own for each purpose, from the verifier's secret.
Hash32 derive(std::string_view purpose, const Hash32& randomness) {
    return crypto::sha256({as_bytes(purpose), randomness.view()});
}

Hash32 sealed_leaf(const Hash32& blind, const Hash32& root) { return crypto::sha256({blind.view(), root.view()}); }

Hash32 commitment_of(const Address& verifier, const std::array<Hash32, 2>& leaves, const Hash32& randomness_hash) {
    return crypto::sha256({verifier.view(), leaves[0].view(), leaves[1].view(), randomness_hash.view()});
}

// The word whose low bit is flipped: one that lies in the tensor (a changed pad would give the alteration away).
std::uint32_t altered_element(const ProbeResult& probe, const Hash32& choice) {
    const vm::tensor::TileIndex at = vm::tensor::tile_index(probe.shape, probe.tile);
    const std::uint64_t height = probe.shape.tile_height();
    const std::uint64_t width = probe.shape.tile_width();
    const std::uint64_t rows = std::min(height, probe.shape.rows() - at.row * height);
    const std::uint64_t columns = std::min(width, probe.shape.columns() - at.column * width);
    return static_cast<std::uint32_t>((word(choice, 1) % rows) * width + word(choice, 2) % columns);
}

// The hash of the tile with the low bit of one word flipped.
Hash32 altered_hash(vm::tensor::Tile tile, std::size_t element) {
    tile[element] ^= 1U;
    return vm::tensor::tile_hash(tile);
}

std::size_t altered_probe(const Hash32& choice, std::size_t probes) { return word(choice, 0) % probes; }
Hash32 choice_hash(const Hash32& randomness) { return derive("quern.report.alter", randomness); }
std::uint8_t true_index(const Hash32& randomness) { return derive("quern.report.which", randomness).data[31] & 1U; }
Hash32 blind_of(const Hash32& randomness, std::size_t index) {
    return derive(index == 0 ? "quern.report.blind.0" : "quern.report.blind.1", randomness);
}

Status check_verdict(bool pass, const Hash32& rival_root) {
    if (pass != rival_root.is_zero()) return fail("verify.bad_verdict", "a pass names no rival root, a fail names one");
    return {};
}

}  // namespace

std::vector<std::uint64_t> draw_segments(const Hash32& verify_beacon, const Address& verifier, std::uint64_t segments,
                                         std::uint64_t samples, std::span<const std::uint64_t> largest) {
    const std::uint64_t others = segments - std::min<std::uint64_t>(largest.size(), segments);
    const std::uint64_t count = std::min({others, samples, std::uint64_t{kMaxSamples}});
    std::set<std::uint64_t> chosen;
    for (std::uint64_t top = others - count; top < others; ++top) {
        const Hash32 hash =
            crypto::sha256({as_bytes("quern.segment"), verify_beacon.view(), verifier.view(), be64(top)});
        const std::uint64_t pick = word(hash, 0) % (top + 1);
        if (!chosen.insert(pick).second) chosen.insert(top);
    }
    // Drawn are places among the others: of the n-th of them the segment is n and those named that are not behind it.
    std::vector<std::uint64_t> drawn(largest.begin(), largest.end());
    std::size_t named = 0;
    for (const std::uint64_t place : chosen) {
        while (named < largest.size() && largest[named] <= place + named) ++named;
        drawn.push_back(place + named);
    }
    std::sort(drawn.begin(), drawn.end());
    return drawn;
}

Status check_largest(std::span<const std::uint64_t> largest, std::uint64_t wanted, std::uint64_t segments) {
    if (largest.size() != std::min(wanted, segments))
        return fail("prove.largest", std::to_string(largest.size()) + " segments, wanted are " +
                                         std::to_string(std::min(wanted, segments)));
    if (std::adjacent_find(largest.begin(), largest.end(), std::greater_equal<>()) != largest.end())
        return fail("prove.largest", "not ascending");
    if (!largest.empty() && largest.back() >= segments)
        return fail("prove.largest", "there is no segment " + std::to_string(largest.back()));
    return {};
}

std::vector<std::uint64_t> segments_of(const chain::types::Task& task, const chain::types::Claim& claim,
                                       const Address& verifier) {
    const auto& work = task.spec.work;
    const std::uint64_t steps = chain::market::stretch_of(task, claim.id.stretch).steps;
    return draw_segments(claim.verify_beacon, verifier, segment_count(steps, work.interval), work.samples,
                         claim.largest);
}

Probe draw_probe(const Hash32& verify_beacon, const Address& verifier, std::uint64_t segment, std::uint32_t probe,
                 std::uint64_t interval, const TaskPlan& plan, std::uint64_t before) {
    const Hash32 hash =
        crypto::sha256({as_bytes("quern.probe"), verify_beacon.view(), verifier.view(), be64(segment), be64(probe)});
    Probe result;
    result.segment = segment;
    result.probe = probe;
    result.step = segment_steps(segment, interval, before).first + (interval == 0 ? 0 : word(hash, 0) % interval);
    result.node = word(hash, 1) % plan.at(result.step).header.node_count;
    result.tile_draw = word(hash, 2);
    return result;
}

std::uint64_t probe_tile(const Probe& probe, const vm::tensor::Shape& node_shape) {
    const std::uint64_t tiles = node_shape.tiles();
    return tiles == 0 ? 0 : probe.tile_draw % tiles;
}

std::vector<Probe> draw_probes(const Hash32& verify_beacon, const Address& verifier,
                               std::span<const std::uint64_t> segments, std::uint64_t interval, const TaskPlan& plan,
                               std::uint64_t before) {
    std::vector<Probe> probes;
    for (const std::uint64_t segment : segments)
        for (std::uint32_t probe = 0; probe < kProbesPerSegment; ++probe)
            probes.push_back(draw_probe(verify_beacon, verifier, segment, probe, interval, plan, before));
    return probes;
}

Expected<SealedReport> seal_report(const Address& verifier, bool pass, const Hash32& rival_root,
                                   std::span<const ProbeResult> probes, const Hash32& randomness) {
    QUERN_CHECK(check_verdict(pass, rival_root));
    if (probes.empty()) return fail("verify.no_probes");
    SealedReport report;
    report.pass = pass;
    report.rival_root = rival_root;
    report.randomness = randomness;
    report.true_leaves.push_back(verdict_leaf(pass, rival_root));
    for (const ProbeResult& probe : probes) {
        QUERN_CHECK(probe.shape.validate());
        if (probe.tile >= probe.shape.tiles()) return fail("verify.bad_probe", "there is no such tile");
        report.true_leaves.push_back(vm::tensor::tile_hash(probe.words));
    }
    const Hash32 choice = choice_hash(randomness);
    const ProbeResult& altered = probes[report.altered_probe = altered_probe(choice, probes.size())];
    report.altered_words = altered.words;
    report.altered_element = altered_element(altered, choice);
    report.altered_leaves = report.true_leaves;
    report.altered_leaves[1 + report.altered_probe] = altered_hash(altered.words, report.altered_element);

    report.true_index = true_index(randomness);
    for (std::size_t i = 0; i < 2; ++i) {
        const std::vector<Hash32>& leaves = i == report.true_index ? report.true_leaves : report.altered_leaves;
        report.result_roots[i] = crypto::list_id_of(MerkleTag::report, leaves);
        report.blinds[i] = blind_of(randomness, i);
        report.leaves[i] = sealed_leaf(report.blinds[i], report.result_roots[i]);
    }
    report.commitment = commitment_of(verifier, report.leaves, crypto::sha256(randomness));
    return report;
}

std::vector<Hash32> result_leaves(bool pass, const Hash32& rival_root, std::span<const Hash32> probes) {
    std::vector<Hash32> leaves{verdict_leaf(pass, rival_root)};
    leaves.insert(leaves.end(), probes.begin(), probes.end());
    return leaves;
}

const std::vector<Hash32>& opened_leaves(const SealedReport& report, std::uint8_t opened) {
    return opened == report.true_index ? report.true_leaves : report.altered_leaves;
}

chain::types::VerifyRevealPayload make_reveal(const SealedReport& report, std::uint64_t task, std::uint8_t opened,
                                              std::uint32_t stretch) {
    const std::size_t index = opened & 1U;
    chain::types::VerifyRevealPayload reveal;
    reveal.task = task;
    reveal.stretch = stretch;
    reveal.pass = report.pass;
    reveal.rival_root = report.rival_root;
    reveal.opened = static_cast<std::uint8_t>(index);
    reveal.result_root = report.result_roots[index];
    reveal.blind = report.blinds[index];
    reveal.other_leaf = report.leaves[1 - index];
    reveal.randomness_hash = crypto::sha256(report.randomness);
    const std::vector<Hash32>& opened_tree = opened_leaves(report, reveal.opened);
    reveal.probes.assign(opened_tree.begin() + 1, opened_tree.end());
    return reveal;
}

chain::types::ReportOpenPayload make_opening(const SealedReport& report, std::uint64_t task, std::uint8_t opened,
                                             std::uint32_t stretch) {
    chain::types::ReportOpenPayload opening;
    opening.task = task;
    opening.stretch = stretch;
    opening.randomness = report.randomness;
    if (opened == report.true_index) return opening;
    opening.true_root = report.result_roots[report.true_index];
    append(opening.tile, vm::tensor::tile_bytes(report.altered_words));
    opening.element = report.altered_element;
    opening.path = crypto::merkle_path(report.true_leaves, 1 + report.altered_probe);
    return opening;
}

Hash32 watch_message(const Hash32& forced_beacon, const chain::types::ClaimId& claim, std::uint64_t draw,
                     std::uint8_t place) {
    const Bytes id = chain::types::KeyOf<chain::types::Watch>::all(claim, draw, place);
    return crypto::sha256({as_bytes("quern.watch"), forced_beacon.view(), BytesView(id)});
}

Hash32 watch_seal(const Address& watcher, const Hash32& root, const Hash32& salt) {
    return crypto::sha256({watcher.view(), root.view(), salt.view()});
}

bool is_alteration(const Hash32& told, const vm::tensor::Tile& tile) {
    for (std::size_t element = 0; element < tile.size(); ++element)
        if (altered_hash(tile, element) == told) return true;
    return false;
}

Expected<OpenedChoice> check_opening(const Address& verifier, const chain::types::VerifierReport& report,
                                     const chain::types::ReportOpenPayload& opening, std::uint64_t segments,
                                     const Hash32& beacon, const Ratio& probability) {
    const Hash32& r = opening.randomness;
    const std::size_t opened = report.opened & 1U;
    std::array<Hash32, 2> leaves;
    leaves[opened] = sealed_leaf(blind_of(r, opened), report.result_root);
    leaves[1 - opened] = report.other_leaf;
    if (commitment_of(verifier, leaves, crypto::sha256(r)) != report.commitment)
        return fail("verify.bad_opening", "not the randomness that was committed to");
    OpenedChoice choice;
    choice.forced = forced(r, beacon, probability);
    const bool told_truth = opened == true_index(r);
    choice.right = choice.forced != told_truth;
    if (told_truth || !choice.right) {
        if (!opening.tile.empty() || !opening.path.empty() || !opening.true_root.is_zero() || opening.element != 0)
            return fail("verify.bad_opening", "there is no alteration to show");
        return choice;
    }
    QUERN_TRY(const auto tile, vm::tensor::tile_from_bytes(opening.tile));
    if (opening.element >= tile.size()) return fail("verify.bad_opening", "a tile has no such word");
    if (sealed_leaf(blind_of(r, 1 - opened), opening.true_root) != report.other_leaf)
        return fail("verify.bad_opening", "not the root in the other leaf");
    const std::uint64_t probes = segments * kProbesPerSegment;
    choice.probe = altered_probe(choice_hash(r), probes);
    const std::uint64_t leaf = 1 + choice.probe;
    choice.true_hash = vm::tensor::tile_hash(tile);
    choice.told_hash = altered_hash(tile, opening.element);
    const auto shows = [&](const Hash32& root, const Hash32& hash) {
        return crypto::check_list_path(MerkleTag::report, root, hash, leaf, 1 + probes, opening.path);
    };
    if (!shows(opening.true_root, choice.true_hash) || !shows(report.result_root, choice.told_hash))
        return fail("verify.bad_opening", "the two results do not differ in this tile");
    return choice;
}

Status check_reveal(const Address& verifier, const Hash32& commitment, const chain::types::VerifyRevealPayload& reveal,
                    std::uint64_t segments) {
    if (reveal.opened > 1) return fail("verify.bad_opened");
    QUERN_CHECK(check_verdict(reveal.pass, reveal.rival_root));
    std::array<Hash32, 2> leaves;
    leaves[reveal.opened] = sealed_leaf(reveal.blind, reveal.result_root);
    leaves[1 - reveal.opened] = reveal.other_leaf;
    if (commitment_of(verifier, leaves, reveal.randomness_hash) != commitment) return fail("verify.bad_commitment");
    if (reveal.probes.size() != segments * kProbesPerSegment) return fail("verify.bad_probe_count");
    if (crypto::list_id_of(MerkleTag::report, result_leaves(reveal.pass, reveal.rival_root, reveal.probes)) !=
        reveal.result_root)
        return fail("verify.bad_result_root");
    return {};
}

bool forced(const Hash32& randomness, const Hash32& beacon, const Ratio& probability) {
    if (probability.denominator == 0 || probability.numerator >= probability.denominator)
        return probability.numerator != 0;
    // The hash's first 64 bits as a fraction of 2^64, compared exactly.
    const Hash32 hash = crypto::sha256({randomness.view(), beacon.view()});
    __extension__ using Wide = unsigned __int128;
    return static_cast<Wide>(word(hash, 0)) * probability.denominator <
           (static_cast<Wide>(probability.numerator) << 64);
}

}  // namespace quern::compute::core
