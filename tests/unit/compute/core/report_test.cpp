// Histories, verification reports and challenges of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compute/core/claims.h"
#include "compute/core/history.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core {
namespace {

Hash32 hash_of(std::uint64_t value) {
    const std::string text = "test " + std::to_string(value);
    return crypto::sha256(as_bytes(text));
}
Address address_of(std::uint8_t byte) {
    Address address;
    address.data.fill(byte);
    return address;
}

HistoryManifest manifest_of(std::uint64_t steps, std::uint64_t interval, std::uint64_t stride = 1) {
    HistoryManifest manifest;
    manifest.interval = interval;
    manifest.stride = stride;
    for (std::uint64_t i = 0; i <= steps; i += stride) manifest.state_roots.push_back(hash_of(i));
    for (std::uint64_t i = 0; i <= steps / interval; ++i) manifest.checkpoint_contents.push_back(hash_of(1000 + i));
    return manifest;
}

TEST(History, ManifestRoundTrips) {
    for (const auto& [steps, interval] : {std::pair{1ULL, 1ULL}, {12ULL, 4ULL}, {300ULL, 300ULL}, {256ULL, 1ULL}}) {
        const HistoryManifest manifest = manifest_of(steps, interval);
        ASSERT_TRUE(check_manifest(manifest).has_value());
        const auto decoded = decode_manifest(encode(manifest));
        ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
        EXPECT_EQ(*decoded, manifest);
    }
    const HistoryManifest strided = manifest_of(24, 12, 4);
    EXPECT_EQ(strided.steps(), 24U);
    EXPECT_EQ(strided.state_roots.size(), 7U);
    const auto decoded = decode_manifest(encode(strided));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
    EXPECT_EQ(*decoded, strided);
}

TEST(History, MalformedManifestsAreRefused) {
    const Bytes good = encode(manifest_of(12, 4));
    for (std::size_t length = 0; length < good.size(); ++length)
        EXPECT_FALSE(decode_manifest(BytesView(good).first(length)).has_value());
    Bytes longer = good;
    longer.push_back(0);
    EXPECT_FALSE(decode_manifest(longer).has_value());
    HistoryManifest manifest = manifest_of(12, 4);
    manifest.interval = 5;
    EXPECT_EQ(decode_manifest(encode(manifest)).error().name, "history.wrong_counts");
    manifest = manifest_of(12, 4);
    manifest.interval = 0;
    EXPECT_EQ(decode_manifest(encode(manifest)).error().name, "history.wrong_counts");
    manifest = manifest_of(12, 4);
    for (const std::uint64_t stride : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{8}, kMaxStride * 2}) {
        manifest.stride = stride;  // a part of the interval, or none
        EXPECT_EQ(decode_manifest(encode(manifest)).error().name, "history.wrong_counts") << stride;
    }
    manifest.stride = 1;
    manifest.checkpoint_contents.pop_back();
    EXPECT_EQ(decode_manifest(encode(manifest)).error().name, "history.wrong_counts");
    EXPECT_EQ(check_manifest(manifest).error().name, "history.wrong_counts");
    // Steps that make no segments have no checkpoints to count.
    manifest = manifest_of(12, 4);
    manifest.interval = 5;
    manifest.checkpoint_contents.resize(1);
    EXPECT_EQ(check_manifest(manifest).error().name, "history.wrong_counts");
    EXPECT_EQ(decode_manifest(encode(HistoryManifest{})).error().name, "history.wrong_counts");
    EXPECT_EQ(decode_manifest(Bytes(kMaxManifestBytes + 1)).error().name, "history.too_large");
    // As many steps as there may be, and one more.
    manifest.interval = 1;
    manifest.state_roots.assign(kMaxStrides + 1, Hash32{});
    manifest.checkpoint_contents = manifest.state_roots;
    EXPECT_TRUE(check_manifest(manifest).has_value());
    manifest.state_roots.emplace_back();
    manifest.checkpoint_contents.emplace_back();
    EXPECT_EQ(check_manifest(manifest).error().name, "history.wrong_counts");
    rlp::Writer more;
    more.begin_list()
        .integer(2)
        .integer(1)
        .integer(1)
        .integer(1)
        .bytes(Bytes(64))
        .bytes(Bytes(64))
        .integer(7)
        .end_list();
    EXPECT_FALSE(decode_manifest(std::move(more).finish()).has_value()) << "something follows";
    // A step count that no roots follow allocates nothing.
    rlp::Writer writer;
    writer.begin_list().integer(2).integer(kMaxStrides).integer(1).integer(1).bytes({}).bytes({}).end_list();
    EXPECT_EQ(decode_manifest(std::move(writer).finish()).error().name, "history.wrong_counts");
    rlp::Writer format;
    format.begin_list().integer(1).end_list();
    EXPECT_EQ(decode_manifest(std::move(format).finish()).error().name, "history.unknown_format");
}

TEST(History, LeavesAreProvenByIndex) {
    const HistoryManifest manifest = manifest_of(12, 4);
    const Hash32 root = history_root(manifest.state_roots);
    for (std::uint64_t i = 0; i <= 12; ++i) {
        const auto path = history_path(manifest.state_roots, i);
        EXPECT_TRUE(check_history_leaf(root, manifest.state_roots[i], i, 12, path).has_value());
        EXPECT_FALSE(check_history_leaf(root, manifest.state_roots[i], (i + 1) % 13, 12, path).has_value());
        EXPECT_FALSE(check_history_leaf(root, manifest.state_roots[i], i, 13, path).has_value());
    }
    EXPECT_EQ(segment_count(12, 4), 3U);
    EXPECT_EQ(segment_count(12, 5), 0U);
    EXPECT_EQ(segment_count(12, 0), 0U);
    EXPECT_EQ(segment_steps(2, 4).first, 9U);
    EXPECT_EQ(segment_steps(2, 4).last, 12U);
}

TEST(Segments, AreDistinctSortedAndAllWhenAskedForAll) {
    const Hash32 beacon = hash_of(1);
    for (const std::uint64_t segments : {1ULL, 7ULL, 100ULL, 1'000'000ULL}) {
        for (const std::uint64_t samples : {1ULL, 6ULL, 7ULL, 20ULL}) {
            const auto drawn = draw_segments(beacon, address_of(1), segments, samples);
            ASSERT_EQ(drawn.size(), std::min(segments, samples));
            EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
            EXPECT_EQ(std::set<std::uint64_t>(drawn.begin(), drawn.end()).size(), drawn.size());
            for (const std::uint64_t segment : drawn) EXPECT_LT(segment, segments);
        }
    }
    EXPECT_TRUE(draw_segments(beacon, address_of(1), 0, 5).empty());
    EXPECT_EQ(draw_segments(beacon, address_of(1), 100, 10), draw_segments(beacon, address_of(1), 100, 10));
    EXPECT_NE(draw_segments(beacon, address_of(1), 100, 10), draw_segments(beacon, address_of(2), 100, 10));
    EXPECT_NE(draw_segments(beacon, address_of(1), 100, 10), draw_segments(hash_of(2), address_of(1), 100, 10));
}

TEST(Segments, HoldThoseThatWereNamedAndAreDrawnEvenlyFromTheOthers) {
    const std::vector<std::uint64_t> largest{0, 3, 4, 11, 19};
    std::vector<int> hits(20, 0);
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto drawn = draw_segments(hash_of(i), address_of(3), 20, 3, largest);
        ASSERT_EQ(drawn.size(), 8U);
        ASSERT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
        ASSERT_TRUE(std::includes(drawn.begin(), drawn.end(), largest.begin(), largest.end()));
        for (const std::uint64_t segment : drawn) ++hits.at(segment);
    }
    for (std::uint64_t i = 0; i < 20; ++i) {  // 3 of 15, 2,000 times: 400 expected, deviation below 18
        if (std::binary_search(largest.begin(), largest.end(), i)) continue;
        EXPECT_GT(hits[i], 310) << i;
        EXPECT_LT(hits[i], 490) << i;
    }
    // All where there are no more than are asked for.
    std::vector<std::uint64_t> all(20);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(draw_segments(hash_of(1), address_of(3), 20, 15, largest), all);
    EXPECT_EQ(draw_segments(hash_of(1), address_of(3), 20, 99, largest), all);
    EXPECT_EQ(draw_segments(hash_of(1), address_of(3), 20, 1, all), all);
}

TEST(Segments, ThatAProofNamesAreAsManyAsWantedAscendingAndThere) {
    using List = std::vector<std::uint64_t>;
    const auto check = [](const List& largest, std::uint64_t wanted, std::uint64_t segments) {
        const Status status = check_largest(largest, wanted, segments);
        return std::string(status ? "" : status.error().name);
    };
    EXPECT_EQ(check({}, 0, 9), "");
    EXPECT_EQ(check({1, 4, 8}, 3, 9), "");
    EXPECT_EQ(check({0, 1}, 16, 2), "") << "more than there are";
    for (const List& bad : {List{}, List{1, 4}, List{1, 4, 8, 7}, List{1, 1, 4}, List{4, 1, 8}, List{1, 4, 9}})
        EXPECT_EQ(check(bad, 3, 9), "prove.largest");
    EXPECT_EQ(check({1}, 0, 9), "prove.largest");
}

TEST(Segments, AreDrawnEvenly) {
    std::vector<int> hits(20, 0);
    for (std::uint64_t i = 0; i < 2000; ++i)
        for (const std::uint64_t segment : draw_segments(hash_of(i), address_of(3), 20, 5)) ++hits[segment];
    for (const int count : hits) {  // 500 expected, deviation below 20
        EXPECT_GT(count, 400);
        EXPECT_LT(count, 600);
    }
}

// Of programs that are known by their headers alone, with so many nodes.
TaskPlan plan_of_sizes(const std::vector<std::uint64_t>& node_counts, std::vector<PlanItem> body) {
    std::vector<PlanProgram> programs;
    for (const std::uint64_t nodes : node_counts) {
        vm::tensor::ProgramHeader header = vm::tensor::test::training_program(4, 5, 40).header;
        header.node_count = nodes;
        programs.push_back({hash_of(static_cast<std::uint8_t>(programs.size())), header});
    }
    return *TaskPlan::make(std::move(programs), std::move(body));
}

TEST(Probes, LieInTheirSegmentAndDifferByVerifier) {
    const std::vector<std::uint64_t> segments{0, 3, 9};
    const TaskPlan plan = plan_of_sizes({400, 7}, {plan_repeat(125, {plan_step(0), plan_step(1)})});
    const auto probes = draw_probes(hash_of(1), address_of(1), segments, 25, plan);
    ASSERT_EQ(probes.size(), segments.size() * kProbesPerSegment);
    for (std::size_t i = 0; i < probes.size(); ++i) {
        const SegmentSteps steps = segment_steps(segments[i / kProbesPerSegment], 25);
        EXPECT_GE(probes[i].step, steps.first);
        EXPECT_LE(probes[i].step, steps.last);
        EXPECT_LT(probes[i].node, plan.at(probes[i].step).header.node_count);
        EXPECT_LT(probe_tile(probes[i], vm::tensor::Shape{{2, 3, 64, 33}}), 24U);
    }
    EXPECT_NE(probes, draw_probes(hash_of(1), address_of(2), segments, 25, plan));
}

struct ReportFixture {
    vm::tensor::Program program = vm::tensor::test::training_program(4, 5, 40);
    Hash32 beacon = hash_of(5);
    Address verifier = address_of(7);
    std::uint64_t interval = 4;
    std::vector<std::uint64_t> segments = draw_segments(beacon, verifier, 10, 3);
    TaskPlan plan = *TaskPlan::make({{vm::tensor::program_root(program), program.header}}, plain_body(40));
    std::vector<Probe> probes = draw_probes(beacon, verifier, segments, interval, plan);
    std::vector<ProbeResult> results;

    ReportFixture() {
        for (const Probe& probe : probes) {
            ProbeResult result;
            result.shape = program.nodes[probe.node].shape;
            result.tile = probe_tile(probe, result.shape);
            result.words[0] = static_cast<std::uint32_t>(results.size() + 100);
            results.push_back(result);
        }
    }
    [[nodiscard]] ReportContext context(const Hash32& result_root) const {
        return {&plan, {0, plan.steps()}, beacon, verifier, result_root, interval, segments};
    }
};

TEST(Report, SealedReportOpensAndRebuildsFromItsSecret) {
    const ReportFixture fixture;
    int altered_first = 0;
    for (std::uint64_t secret = 0; secret < 20; ++secret) {
        for (const bool pass : {true, false}) {
            const Hash32 rival = pass ? Hash32{} : hash_of(77);
            const auto report = seal_report(fixture.verifier, pass, rival, fixture.results, hash_of(secret));
            ASSERT_TRUE(report.has_value());
            const auto again = seal_report(fixture.verifier, pass, rival, fixture.results, hash_of(secret));
            EXPECT_EQ(report->commitment, again->commitment);
            altered_first += report->true_index;
            // The two trees differ in one probe.
            int differences = 0;
            for (std::size_t i = 0; i < report->true_leaves.size(); ++i)
                differences += report->true_leaves[i] != report->altered_leaves[i] ? 1 : 0;
            EXPECT_EQ(differences, 1);
            EXPECT_EQ(report->true_leaves[0], report->altered_leaves[0]);
            for (const std::uint8_t opened : {std::uint8_t{0}, std::uint8_t{1}}) {
                const auto reveal = make_reveal(*report, 9, opened);
                EXPECT_TRUE(check_reveal(fixture.verifier, report->commitment, reveal, 3).has_value());
            }
        }
    }
    EXPECT_GT(altered_first, 5);
    EXPECT_LT(altered_first, 35);
}

TEST(Report, AlteredElementsLieInTheTensorWhateverItsTiles) {
    struct Case {
        vm::tensor::Shape shape;
        std::uint64_t tile;
        std::vector<std::uint32_t> words;  // of the tile that are elements
    };
    const Case cases[] = {
        {{{1, 1, 1, 5}}, 0, {0, 1, 2, 3, 4}},
        {{{1, 2, 1, 1027}}, 3, {0, 1, 2}},  // tiles of 1 x 1,024
        {{{1, 1, 3, 2}}, 0, {0, 1, 32, 33, 64, 65}},
        {{{1, 1, 35, 33}}, 3, {0, 32, 64}},
    };
    for (const Case& c : cases) {
        std::map<Hash32, int> drawn;
        for (const std::uint32_t word : c.words) {
            vm::tensor::Tile tile{};
            tile[word] = 1;
            drawn[vm::tensor::tile_hash(tile)] = 0;
        }
        const std::vector<ProbeResult> results{{c.shape, c.tile, {}}};
        for (std::uint64_t secret = 0; secret < 100; ++secret) {
            const auto report = seal_report(Address{}, true, {}, results, hash_of(secret));
            ASSERT_TRUE(report.has_value()) << report.error().to_string();
            ASSERT_TRUE(drawn.contains(report->altered_leaves[1])) << c.shape.to_string();
            ++drawn[report->altered_leaves[1]];
        }
        for (const auto& [hash, count] : drawn) EXPECT_GT(count, 0) << c.shape.to_string();
    }
}

TEST(Report, RevealsThatDoNotMatchAreRefused) {
    const ReportFixture fixture;
    const auto report = seal_report(fixture.verifier, false, hash_of(77), fixture.results, hash_of(1));
    ASSERT_TRUE(report.has_value());
    const auto good = make_reveal(*report, 9, report->true_index);
    const auto expect = [&](const chain::types::VerifyRevealPayload& reveal, std::string_view error) {
        const Status status = check_reveal(fixture.verifier, report->commitment, reveal, 3);
        EXPECT_EQ(status ? "accepted" : status.error().name, error);
    };
    auto reveal = good;
    reveal.opened = 2;
    expect(reveal, "verify.bad_opened");
    reveal = good;
    reveal.opened ^= 1;
    expect(reveal, "verify.bad_commitment");
    reveal = good;
    reveal.pass = true;
    expect(reveal, "verify.bad_verdict");
    reveal.rival_root = {};
    expect(reveal, "verify.bad_result_root");
    reveal = good;
    reveal.rival_root = hash_of(78);
    expect(reveal, "verify.bad_result_root");
    reveal = good;
    reveal.blind = hash_of(3);
    expect(reveal, "verify.bad_commitment");
    reveal = good;
    reveal.randomness_hash = hash_of(3);
    expect(reveal, "verify.bad_commitment");
    reveal = good;
    reveal.other_leaf = hash_of(3);
    expect(reveal, "verify.bad_commitment");
    reveal = good;
    reveal.probes.pop_back();
    expect(reveal, "verify.bad_probe_count");
    reveal = good;
    reveal.probes[1] = hash_of(3);
    expect(reveal, "verify.bad_result_root");
    // Another verifier cannot use it, and the number of segments is bound.
    EXPECT_EQ(check_reveal(address_of(8), report->commitment, good, 3).error().name, "verify.bad_commitment");
    EXPECT_EQ(check_reveal(fixture.verifier, report->commitment, good, 4).error().name, "verify.bad_probe_count");
}

TEST(Report, SenselessReportsAreNotSealed) {
    const ReportFixture fixture;
    EXPECT_EQ(seal_report(fixture.verifier, true, hash_of(1), fixture.results, {}).error().name, "verify.bad_verdict");
    EXPECT_EQ(seal_report(fixture.verifier, false, {}, fixture.results, {}).error().name, "verify.bad_verdict");
    EXPECT_EQ(seal_report(fixture.verifier, true, {}, {}, {}).error().name, "verify.no_probes");
    auto results = fixture.results;
    results[0].tile = results[0].shape.tiles();
    EXPECT_EQ(seal_report(fixture.verifier, true, {}, results, {}).error().name, "verify.bad_probe");
}

TEST(Report, ForcedErrorsHaveTheirProbability) {
    int forced_count = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        EXPECT_FALSE(forced(hash_of(i), hash_of(1), {0, 1}));
        forced_count += forced(hash_of(i), hash_of(1), {1, 20}) ? 1 : 0;
    }
    EXPECT_GT(forced_count, 850);
    EXPECT_LT(forced_count, 1150);
    EXPECT_TRUE(forced(hash_of(1), hash_of(1), {1, 1}));
}

namespace {

// A report as the chain keeps it once it is told as it must be, and what opens it.
struct Told {
    bool forced = false;
    chain::types::VerifyRevealPayload reveal;
    chain::types::VerifierReport report;
    chain::types::ReportOpenPayload opening;
};
Told tell(const ReportFixture& fixture, const Hash32& randomness, const Hash32& beacon, const Ratio& probability) {
    const auto sealed = *seal_report(fixture.verifier, true, {}, fixture.results, randomness);
    Told told;
    told.forced = forced(randomness, beacon, probability);
    const std::uint8_t opened = choice_of(sealed, told.forced);
    told.reveal = make_reveal(sealed, 1, opened);
    told.report.commitment = sealed.commitment;
    told.report.opened = opened;
    told.report.result_root = told.reveal.result_root;
    told.report.other_leaf = told.reveal.other_leaf;
    told.opening = make_opening(sealed, 1, opened);
    return told;
}

}  // namespace

TEST(ForcedError, TenThousandRoundsAgreeWithTheProbability) {
    const ReportFixture fixture;
    const std::uint64_t segments = fixture.results.size() / kProbesPerSegment;
    constexpr int kRounds = 10'000;
    const Ratio probability{1, 200};
    int forced_count = 0;
    for (int i = 0; i < kRounds; ++i) {
        const Hash32 beacon = hash_of(100'000 + i);
        const Told told = tell(fixture, hash_of(i), beacon, probability);
        const auto choice = check_opening(fixture.verifier, told.report, told.opening, segments, beacon, probability);
        ASSERT_TRUE(choice) << choice.error().to_string();
        ASSERT_TRUE(choice->right);
        ASSERT_EQ(choice->forced, told.forced);
        forced_count += choice->forced ? 1 : 0;
    }
    // 50 in the mean, 7.05 the standard deviation: four of them to either side.
    EXPECT_GE(forced_count, 22);
    EXPECT_LE(forced_count, 78);
}

TEST(ForcedError, OpeningsBindWhatWasCommittedTo) {
    const ReportFixture fixture;
    const std::uint64_t segments = fixture.results.size() / kProbesPerSegment;
    const auto check = [&](const Told& told, const Ratio& probability) {
        return check_opening(fixture.verifier, told.report, told.opening, segments, hash_of(7), probability);
    };
    const Ratio always{1, 1};
    const Ratio never{0, 1};
    const Told told = tell(fixture, hash_of(1), hash_of(7), always);
    const auto good = check(told, always);
    ASSERT_TRUE(good) << good.error().to_string();
    EXPECT_TRUE(good->right);
    const auto sealed = *seal_report(fixture.verifier, true, {}, fixture.results, hash_of(1));
    EXPECT_EQ(good->true_hash, sealed.true_leaves[1 + sealed.altered_probe]);
    EXPECT_EQ(good->told_hash, sealed.altered_leaves[1 + sealed.altered_probe]);
    // The altered result when nothing forces it; there is nothing to show then but the randomness.
    Told willing = told;
    willing.opening = {1, 0, hash_of(1), {}, {}, 0, {}};
    const auto wrong = check(willing, never);
    ASSERT_TRUE(wrong) << wrong.error().to_string();
    EXPECT_FALSE(wrong->right);
    // And the truth when an error is forced.
    const Told stubborn = tell(fixture, hash_of(1), hash_of(7), never);
    EXPECT_FALSE(check(stubborn, always)->right);
    EXPECT_TRUE(check(stubborn, never)->right);

    const auto refused = [&](auto&& change) {
        Told changed = told;
        change(changed);
        const auto result = check(changed, always);
        return !result && result.error().name == "verify.bad_opening";
    };
    EXPECT_TRUE(refused([](Told& t) { t.opening.randomness.data[0] ^= 1U; }));
    EXPECT_TRUE(refused([](Told& t) { t.opening.element ^= 1U; }));
    EXPECT_TRUE(refused([](Told& t) { t.opening.element = 1U << 20; }));
    EXPECT_TRUE(refused([](Told& t) { t.opening.tile[0] ^= 1U; }));
    EXPECT_TRUE(refused([](Told& t) { t.opening.true_root.data[3] ^= 1U; }));
    EXPECT_TRUE(refused([](Told& t) { t.opening.path.pop_back(); }));
    EXPECT_TRUE(refused([](Told& t) { t.report.other_leaf.data[0] ^= 1U; }));
    EXPECT_TRUE(refused([](Told& t) { t.report.result_root.data[0] ^= 1U; }));
}

// What somebody sees who neither has r nor executes: the reveal. No bit of it may say more of what was forced than
// chance does. (Whoever has executed the probes sees it at once.)
TEST(ForcedError, NoBitOfARevealTellsForcedFromTrue) {
    const ReportFixture fixture;
    constexpr int kRounds = 4'000;
    std::vector<int> set_when[2];
    int rounds_of[2] = {0, 0};
    for (int i = 0; i < kRounds; ++i) {
        const Told told = tell(fixture, hash_of(i), hash_of(50'000), {1, 2});
        Bytes seen{told.reveal.opened};
        for (const Hash32& part :
             {told.reveal.blind, told.reveal.other_leaf, told.reveal.randomness_hash, told.report.commitment})
            append(seen, part);
        auto& counts = set_when[told.forced ? 1 : 0];
        counts.resize(8 * seen.size());
        for (std::size_t bit = 0; bit < counts.size(); ++bit) counts[bit] += (seen[bit / 8] >> (bit % 8)) & 1;
        ++rounds_of[told.forced ? 1 : 0];
    }
    ASSERT_GT(std::min(rounds_of[0], rounds_of[1]), kRounds / 3);
    for (std::size_t bit = 0; bit < set_when[0].size(); ++bit) {
        const double p0 = double(set_when[0][bit]) / rounds_of[0];
        const double p1 = double(set_when[1][bit]) / rounds_of[1];
        // Two shares of half of 2,000: 0.0158 the standard deviation of their difference; five of them.
        EXPECT_LT(std::abs(p0 - p1), 0.08) << "bit " << bit;
    }
}

TEST(ForcedError, AnAlterationIsTheLowBitOfOneWord) {
    const ReportFixture fixture;
    const auto sealed = *seal_report(fixture.verifier, true, {}, fixture.results, hash_of(3));
    const auto& tile = fixture.results[sealed.altered_probe].words;
    EXPECT_TRUE(is_alteration(sealed.altered_leaves[1 + sealed.altered_probe], tile));
    EXPECT_FALSE(is_alteration(sealed.true_leaves[1 + sealed.altered_probe], tile));
    auto other = tile;
    other[0] ^= 2U;
    EXPECT_FALSE(is_alteration(vm::tensor::tile_hash(other), tile));
}

TEST(Challenge, CommitmentBindsSenderClaimAndSalt) {
    const Hash32 commitment = challenge_commitment(address_of(1), hash_of(1), hash_of(2));
    EXPECT_NE(commitment, challenge_commitment(address_of(2), hash_of(1), hash_of(2)));
    EXPECT_NE(commitment, challenge_commitment(address_of(1), hash_of(2), hash_of(2)));
    EXPECT_NE(commitment, challenge_commitment(address_of(1), hash_of(1), hash_of(3)));
}

TEST(Challenge, HistoryChallengeMustStartFromTheTasksState) {
    const HistoryManifest rival = manifest_of(12, 4);
    const Hash32 claim = history_root(rival.state_roots);
    HistoryChallenge challenge{history_path(rival.state_roots, 0)};
    const auto decoded = decode_history_challenge(encode(challenge));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_TRUE(check_history_challenge(*decoded, claim, hash_of(9), rival.state_roots[0], 12).has_value());
    EXPECT_EQ(check_history_challenge(challenge, claim, claim, rival.state_roots[0], 12).error().name,
              "challenge.equal_claim");
    EXPECT_EQ(check_history_challenge(challenge, claim, hash_of(9), hash_of(8), 12).error().name,
              "challenge.bad_initial_path");
    challenge.initial_path.pop_back();
    EXPECT_EQ(check_history_challenge(challenge, claim, hash_of(9), rival.state_roots[0], 12).error().name,
              "challenge.bad_initial_path");
    EXPECT_EQ(decode_history_challenge(Bytes(kMaxChallengeBytes + 1)).error().name, "challenge.too_large");
    EXPECT_FALSE(decode_history_challenge(Bytes{0xc1, 0x80}).has_value());
}

TEST(Challenge, ProbeChallengeGivesTheGamesTarget) {
    const ReportFixture fixture;
    const auto report = seal_report(fixture.verifier, true, {}, fixture.results, hash_of(1));
    ASSERT_TRUE(report.has_value());
    const ReportContext context = fixture.context(report->result_roots[report->true_index]);
    const ProgramProver prover(fixture.program);
    for (std::size_t i = 0; i < fixture.probes.size(); ++i) {
        const Probe& probe = fixture.probes[i];
        ProbeChallenge challenge;
        challenge.segment = probe.segment;
        challenge.probe = probe.probe;
        challenge.tile_hash = report->true_leaves[1 + i];
        challenge.path = crypto::merkle_path(report->true_leaves, 1 + i);
        challenge.node = prover.node(probe.node);
        const auto decoded = decode_probe_challenge(encode(challenge));
        ASSERT_TRUE(decoded.has_value());
        const auto target = check_probe_challenge(*decoded, hash_of(4), context);
        ASSERT_TRUE(target.has_value()) << target.error().to_string();
        EXPECT_EQ(target->step, probe.step);
        EXPECT_EQ(target->node, probe.node);
        EXPECT_EQ(target->tile, fixture.results[i].tile);
        EXPECT_EQ(target->defender_hash, challenge.tile_hash);

        EXPECT_EQ(check_probe_challenge(challenge, challenge.tile_hash, context).error().name, "challenge.equal_claim");
        ProbeChallenge changed = challenge;
        changed.probe = kProbesPerSegment;
        EXPECT_EQ(check_probe_challenge(changed, hash_of(4), context).error().name, "challenge.not_sampled");
        changed = challenge;
        while (std::find(fixture.segments.begin(), fixture.segments.end(), changed.segment) != fixture.segments.end())
            ++changed.segment;
        EXPECT_EQ(check_probe_challenge(changed, hash_of(4), context).error().name, "challenge.not_sampled");
        changed = challenge;
        changed.probe ^= 1;
        EXPECT_EQ(check_probe_challenge(changed, hash_of(4), context).error().name, "challenge.bad_probe_path");
        changed = challenge;
        changed.node = prover.node((probe.node + 1) % fixture.program.nodes.size());
        EXPECT_EQ(check_probe_challenge(changed, hash_of(4), context).error().name, "dispute.bad_opening");
        changed = challenge;
        changed.node.path.clear();
        EXPECT_EQ(check_probe_challenge(changed, hash_of(4), context).error().name, "dispute.bad_opening");
    }
}

}  // namespace
}  // namespace quern::compute::core
