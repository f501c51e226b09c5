// The dispute game fed with outside bytes: stored games, moves at every position of real games, challenges, histories.
#include <algorithm>

#include "chain/types/fields.h"
#include "compute/core/claims.h"
#include "compute/core/custody_manifest.h"
#include "compute/core/history.h"
#include "compute/core/task_imports.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"
#include "support/posts.h"
#include "support/training_game.h"

namespace quern::fuzz {
namespace {

using namespace compute::core;
using vm::tensor::Op;

constexpr std::uint64_t kSteps = 3;
constexpr std::uint64_t kHeight = 100;
constexpr std::uint64_t kBudget = 30;

// One lie, from both sides of the table.
struct Dispute {
    const test::Training* honest = nullptr;
    test::Training liar;
    test::Alter alter;
    Side lying_side = Side::defender;
    std::vector<test::PlayedMove> moves;
};

struct Position {
    const Dispute* dispute = nullptr;
    std::size_t move = 0;  // the game before this one
    [[nodiscard]] const test::PlayedMove& played() const { return dispute->moves[move]; }
};

class Disputes {
public:
    Disputes() : honest_(test::train(test::small_architecture(), kSteps)), strided_(honest_) {
        strided_.stride = kSteps;
        const auto& program = honest_.program();
        // A matmul, a reduction and a scatter of the second step, and an input slot: each ends in another kind of leaf.
        for (const Op op : {Op::matmul, Op::sum_rows, Op::scatter_add_rows, Op::slot}) {
            for (std::uint32_t node = 0; node < program.nodes.size(); ++node) {
                if (program.nodes[node].op != op) continue;
                const test::Alter alter = [=](std::uint64_t step, std::uint32_t at, vm::tensor::Tensor& output) {
                    if (step == 2 && at == node) output.words[output.words.size() / 2] ^= 0x00400000;
                };
                auto liar = test::train_altered(honest_, alter, 2);
                if (liar.history_root() == honest_.history_root()) continue;  // nothing that lasts depends on it
                const Side side = disputes_.size() % 2 == 0 ? Side::defender : Side::rival;
                disputes_.push_back({&honest_, std::move(liar), alter, side, {}});
                break;
            }
        }
        disputes_.push_back(disputes_.front());  // the first one again, in one stride
        disputes_.back().honest = &strided_;
        disputes_.back().liar.stride = kSteps;
        for (Dispute& dispute : disputes_) play_through(dispute);
    }

    [[nodiscard]] const test::Training& honest() const { return honest_; }
    [[nodiscard]] const std::vector<Position>& positions() const { return positions_; }
    [[nodiscard]] Game final_game() const { return final_; }

private:
    void play_through(Dispute& dispute) {
        const bool defends = dispute.lying_side == Side::defender;
        const test::Training& truth = *dispute.honest;
        auto game = open_history_game(truth.context(), (defends ? dispute.liar : truth).history_root(),
                                      (defends ? truth : dispute.liar).history_root(), kBudget, kHeight);
        QUERN_ACCEPTED(game);
        auto liar = test::player_of(dispute.liar, dispute.alter);
        auto honest = test::player_of(truth, {});
        dispute.moves = test::play(*game, defends ? liar : honest, defends ? honest : liar, kHeight);
        QUERN_PROPERTY(game->verdict == (defends ? Verdict::rival_wins : Verdict::defender_wins));
        for (std::size_t i = 0; i < dispute.moves.size(); ++i) positions_.push_back({&dispute, i});
        final_ = std::move(*game);
    }

    test::Training honest_;
    test::Training strided_;
    std::vector<Dispute> disputes_;
    std::vector<Position> positions_;
    Game final_;
};

const Disputes& disputes() {
    static const Disputes instance;
    return instance;
}

// Bytes that cannot be mutated into the next position by accident keep the targets apart: two bytes of position.
const Position& position_at(BytesView input) {
    const auto& positions = disputes().positions();
    return positions[static_cast<std::size_t>(input[0] << 8 | input[1]) % positions.size()];
}

Bytes with_position(std::size_t position, Side side, BytesView rest) {
    Bytes bytes;
    bytes.reserve(3 + rest.size());
    bytes.push_back(static_cast<std::uint8_t>(position >> 8));
    bytes.push_back(static_cast<std::uint8_t>(position));
    bytes.push_back(static_cast<std::uint8_t>(side));
    append(bytes, rest);
    return bytes;
}

void check_sound(const Game& game) {
    QUERN_ACCEPTED(check_game(game));
    const Bytes encoded = chain::types::encode_record(game);
    const auto again = chain::types::decode_record<Game>(encoded);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(chain::types::encode_record(*again) == encoded);
}

// The liar made a move of its own: the honest side still must not lose, whatever the liar does next.
void check_honest_side_wins(Game game, const Position& position) {
    const Dispute& dispute = *position.dispute;
    auto honest = test::player_of(*position.dispute->honest, {});
    auto liar = test::player_of(dispute.liar, dispute.alter);
    const bool defends = dispute.lying_side == Side::defender;
    (void)test::play(game, defends ? liar : honest, defends ? honest : liar, kHeight + 5);
    QUERN_PROPERTY(game.verdict == (defends ? Verdict::rival_wins : Verdict::defender_wins));
}

// Applies something to the game of a position; true when it was taken.
template <class Apply>
bool try_move(BytesView input, Apply&& apply) {
    const Position& position = position_at(input);
    const Side side = (input[2] & 1) == 0 ? Side::defender : Side::rival;
    Game game = position.played().before;
    const Bytes before = chain::types::encode_record(game);
    if (!apply(game, side)) {
        QUERN_PROPERTY(chain::types::encode_record(game) == before);
        return false;
    }
    check_sound(game);
    if (side == position.dispute->lying_side) check_honest_side_wins(std::move(game), position);
    return true;
}

// Input: position (2), side (1), the move's RLP.
bool run_split(BytesView input) {
    if (input.size() < 3) return false;
    const auto move = decode_split_move(input.subspan(3));
    if (!move) return false;
    QUERN_PROPERTY(equal(chain::types::encode_record(*move), input.subspan(3)));
    return try_move(input, [&](Game& game, Side side) {
        if (!apply_split(game, side, *move, kHeight + 5)) return false;
        test::remember_post(*move);
        return true;
    });
}
bool run_leaf(BytesView input) {
    if (input.size() < 3) return false;
    const auto witness = decode_leaf_witness(input.subspan(3));
    if (!witness) return false;
    QUERN_PROPERTY(equal(chain::types::encode_record(*witness), input.subspan(3)));
    return try_move(input,
                    [&](Game& game, Side side) { return apply_leaf(game, side, *witness, kHeight + 5).has_value(); });
}

// Real moves of one phase each; a whole accumulator tile or operand makes 4 KiB, which is what the seeds cost.
template <class MoveType>
std::vector<Seed> seeds_of_moves() {
    std::vector<Seed> seeds;
    const auto& positions = disputes().positions();
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const auto& played = positions[i].played();
        if (positions[i].dispute != positions[0].dispute && played.before.phase != Phase::leaf &&
            played.before.phase != Phase::tile && played.before.phase != Phase::steps)
            continue;
        if (!std::holds_alternative<MoveType>(played.move)) continue;
        seeds.push_back({std::string(to_string(played.before.phase)) + "_" + std::to_string(i),
                         with_position(i, played.side, test::move_bytes(played.move))});
    }
    return seeds;
}

// Games as the chain stores them. Any that decodes may be handed to every function.
bool run_game(BytesView input) {
    const auto decoded = chain::types::decode_record<Game>(input);
    if (!decoded) return false;
    QUERN_PROPERTY(equal(chain::types::encode_record(*decoded), input));
    const bool sound = check_game(*decoded).has_value();
    for (const Side side : {Side::defender, Side::rival}) (void)owes_move(*decoded, side);
    (void)next_deadline(*decoded);
    (void)disputed_node(*decoded);
    Game charged = *decoded;
    charge_clocks(charged, kHeight + 3);
    Game twice = charged;
    charge_clocks(twice, kHeight + 3);
    QUERN_PROPERTY(chain::types::encode_record(twice) == chain::types::encode_record(charged));
    for (const Position& position : disputes().positions()) {
        const auto& played = position.played();
        if (played.before.phase != decoded->phase) continue;
        Game game = *decoded;
        if (test::apply_move(game, played.side, played.move, kHeight + 5)) QUERN_ACCEPTED(check_game(game));
    }
    return sound;
}
std::vector<Seed> seeds_game() {
    std::vector<Seed> seeds;
    const auto& positions = disputes().positions();
    std::vector<bool> seen(static_cast<std::size_t>(Phase::decided));
    for (const Position& position : positions) {
        const Game& game = position.played().before;
        const auto phase = static_cast<std::size_t>(game.phase);
        if (seen[phase]) continue;
        seen[phase] = true;
        seeds.push_back({to_string(game.phase), chain::types::encode_record(game)});
    }
    seeds.push_back({"decided", chain::types::encode_record(disputes().final_game())});
    return seeds;
}

bool run_challenge(BytesView input) {
    bool taken = false;
    if (const auto challenge = decode_history_challenge(input)) {
        taken = true;
        QUERN_PROPERTY(equal(encode(*challenge), input));
        (void)check_history_challenge(*challenge, Hash32{{1}}, Hash32{{2}}, Hash32{{3}}, kSteps);
    }
    if (const auto challenge = decode_probe_challenge(input)) {
        taken = true;
        QUERN_PROPERTY(equal(encode(*challenge), input));
        ReportContext report;
        report.plan = &disputes().honest().programs->plan;
        report.stretch = {0, report.plan->steps()};
        report.result_root = Hash32{{4}};
        report.interval = 1;
        report.segments = {0, 1};
        QUERN_PROPERTY(!check_probe_challenge(*challenge, Hash32{{1}}, report));  // nothing leads to that result root
    }
    return taken;
}
std::vector<Seed> seeds_challenge() {
    HistoryChallenge history;
    history.initial_path = history_path(disputes().honest().roots, 0);
    ProbeChallenge probe;
    probe.segment = 1;
    probe.probe = 1;
    probe.tile_hash = Hash32{{9}};
    probe.path = {Hash32{{1}}, Hash32{{2}}};
    const auto& program = disputes().honest().program();
    const auto leaves = vm::tensor::program_leaves(program);
    probe.node = {5, vm::tensor::encode(program.nodes[5]), crypto::merkle_path(leaves, vm::tensor::node_leaf_index(5))};
    return {{"history", encode(history)}, {"probe", encode(probe)}};
}

bool run_task_plan(BytesView input) {
    const auto plan = TaskPlan::decode(input);
    if (!plan) return false;
    QUERN_PROPERTY(equal(plan->bytes(), input));
    const std::uint64_t steps = plan->steps();
    QUERN_PROPERTY(steps > 0 && steps <= kMaxPlanSteps);
    const auto planned = plan->planned(steps, steps);
    QUERN_PROPERTY(planned.total == plan->work_until(steps) + Uint256(planned.commit));
    QUERN_PROPERTY(planned.segment == planned.total);
    // A few steps of the beginning, the middle and the end: work grows by that of each step's program.
    for (const std::uint64_t around : {std::uint64_t{1}, steps / 2, steps}) {
        for (std::uint64_t step = around < 3 ? 1 : around - 2; step <= std::min(steps, around + 2); ++step) {
            QUERN_PROPERTY(plan->program_of(step) < plan->programs().size());
            const Uint256 work(plan->at(step).header.work_units);
            QUERN_PROPERTY(plan->work_until(step) == plan->work_until(step - 1) + work);
            QUERN_PROPERTY(plan->most_work(1) >= work && plan->most_work(step) >= plan->work_until(step));
        }
    }
    return true;
}
std::vector<Seed> seeds_task_plan() {
    const PlanProgram first = disputes().honest().programs->plan.programs().front();
    PlanProgram second = first;
    second.root.data[0] ^= 1;
    second.header.work_units += 77;
    const std::vector<PlanItem> turn{plan_repeat(4, {plan_step(0)}), plan_step(1)};
    const std::vector<PlanItem> rounds{plan_repeat(30, {plan_step(1), plan_repeat(500, turn), plan_step(0)})};
    return {{"one", disputes().honest().programs->plan.bytes()},
            {"accumulate", TaskPlan::make({first, second}, {plan_repeat(1'000, turn)})->bytes()},
            {"rounds", TaskPlan::make({first, second}, rounds)->bytes()}};
}

// Of a first state of 13 slots it is said what is of earlier ones.
std::vector<Hash32> slots_from(std::uint8_t first, std::size_t count) {
    std::vector<Hash32> slots;
    for (std::size_t i = 0; i < count; ++i) slots.push_back(Hash32{{static_cast<std::uint8_t>(first + i)}});
    return slots;
}
const std::vector<Hash32>& first_slots() {
    static const std::vector<Hash32> slots = slots_from(1, 13);
    return slots;
}

bool run_task_imports(BytesView input) {
    const auto given = chain::types::decode_record<chain::types::TaskImports>(input);
    if (!given) return false;
    chain::types::TaskSubmitPayload spec;
    spec.init_root = crypto::list_id_of(crypto::MerkleTag::state, first_slots());
    spec.imports = *given;
    const auto states = open_imports(spec, first_slots().size());
    QUERN_PROPERTY(check_imports(*given) || !states);
    if (!states) return false;
    QUERN_PROPERTY(equal(chain::types::encode_record(spec.imports), input));
    QUERN_PROPERTY(states->size() == spec.imports.list.size());
    std::size_t next = 0;  // nothing but the slots themselves can be opened
    for (const auto& import : spec.imports.list)
        for (const auto& range : import.slots)
            for (std::uint32_t i = 0; i < range.count; ++i, ++next)
                QUERN_PROPERTY(spec.imports.roots[next] == first_slots()[range.here + i]);
    QUERN_PROPERTY(next == spec.imports.roots.size());
    return true;
}
std::vector<Seed> seeds_task_imports() {
    std::vector<Hash32> earlier = slots_from(100, 9);
    std::copy(first_slots().begin() + 3, first_slots().begin() + 8, earlier.begin() + 2);
    const std::vector<Hash32> other{first_slots()[11]};
    const auto seed = [&](const std::vector<ImportSource>& sources) {
        chain::types::TaskSubmitPayload spec;
        set_imports(spec, sources, first_slots());
        return chain::types::encode_record(spec.imports);
    };
    return {{"none", seed({})},
            {"model", seed({{7, 0, earlier, {{2, 3, 5}}}})},
            {"two", seed({{7, 0, earlier, {{2, 3, 1}, {4, 5, 3}}}, {9, 1, other, {{0, 11, 1}}}})}};
}

bool run_history_manifest(BytesView input) {
    const auto manifest = decode_manifest(input);
    if (!manifest) return false;
    QUERN_PROPERTY(equal(encode(*manifest), input));
    QUERN_ACCEPTED(check_manifest(*manifest));
    const Hash32 root = history_root(manifest->state_roots);
    const std::uint64_t strides = manifest->state_roots.size() - 1;
    for (const std::uint64_t index : {std::uint64_t{0}, strides})
        QUERN_ACCEPTED(check_history_leaf(root, manifest->state_roots[index], index, strides,
                                          history_path(manifest->state_roots, index)));
    return true;
}
std::vector<Seed> seeds_history_manifest() {
    HistoryManifest manifest;
    manifest.interval = 3;
    manifest.state_roots = disputes().honest().roots;
    manifest.checkpoint_contents = {Hash32{{1}}, Hash32{{2}}};
    HistoryManifest strided = manifest;
    strided.stride = 3;
    strided.state_roots = {manifest.state_roots.front(), manifest.state_roots.back()};
    return {{"three_steps", encode(manifest)}, {"one_stride", encode(strided)}};
}

bool run_custody_manifest(BytesView input) {
    const auto manifest = decode_custody_manifest(input);
    if (!manifest) return false;
    QUERN_ACCEPTED(check_custody(*manifest));
    QUERN_PROPERTY(equal(encode(*manifest), input));
    for (const auto& each : manifest->contents) QUERN_PROPERTY(manifest->find(each.content) == &each);
    return true;
}
std::vector<Seed> seeds_custody_manifest() {
    const auto seed = [](crypto::CellCode code, std::initializer_list<std::size_t> sizes) {
        CustodyManifest manifest{code, {}};
        for (const std::size_t size : sizes) {
            auto hasher = crypto::FragmentHasher::make(code);
            QUERN_ACCEPTED(hasher);
            hasher->update(Bytes(size, 7));
            manifest.contents.push_back(hasher->finish());
        }
        std::sort(manifest.contents.begin(), manifest.contents.end(),
                  [](const auto& a, const auto& b) { return a.content < b.content; });
        return encode(manifest);
    };
    return {{"one", seed({1, 1}, {100})}, {"three", seed({2, 5}, {0, 1, 70'000})}};
}

}  // namespace

std::span<const Target> game_targets() {
    static constexpr Target kTargets[] = {
        {"dispute_split", run_split, seeds_of_moves<SplitMove>, 12'000},
        {"dispute_leaf", run_leaf, seeds_of_moves<LeafWitness>, 20'000},
        {"dispute_game", run_game, seeds_game, 12'000},
        {"challenge", run_challenge, seeds_challenge, 2'000},
        {"task_plan", run_task_plan, seeds_task_plan, 4'000},
        {"task_imports", run_task_imports, seeds_task_imports, 2'000},
        {"history_manifest", run_history_manifest, seeds_history_manifest, 2'000},
        {"custody_manifest", run_custody_manifest, seeds_custody_manifest, 2'000},
    };
    return kTargets;
}

}  // namespace quern::fuzz
