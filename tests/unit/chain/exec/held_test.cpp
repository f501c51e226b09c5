// The share of a reward that is held until the result is accepted or its retention over, and the question for a piece
// of the last state that it can be lost by.
#include <numeric>

#include "chain/exec/handlers/events.h"
#include "chain/exec/outlay.h"
#include "chain/market/escrow.h"
#include "chain/types/event_reader.h"
#include "compute/core/state_piece.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

using types::DataAnswerPayload;
using types::DataChallengePayload;
using types::TaskIdPayload;

class Held : public Lifecycle {
protected:
    Held() { world.params.market.held_percent = 20; }

    Uint256 balance_of(const types::Address& who) { return balance(world.state(), who); }
    Uint256 fee() const {
        const auto& receipt = world.last_receipt();
        return receipt.effective_gas_price * Uint256(receipt.gas_used);
    }
    Uint256 price() const { return world.params.market.dispute_cost; }
    std::uint64_t settled() {
        const auto id = reach(ClaimState::challenge, truth);
        tick_when_due(id);
        EXPECT_EQ(world.task(id).state, TaskState::settled);
        return id;
    }
    // Of the whole run.
    Uint256 reward(std::uint64_t id) const {
        const auto task = world.task(id);
        return task.seats.at(0).price * task.total_work;
    }
    Uint256 paid(std::uint64_t id, const types::Address& to, std::string_view reason) const {
        Uint256 sum;
        for (const auto& payment : world.task(id).payments)
            if (payment.to == to && payment.reason == reason) sum += payment.amount;
        return sum;
    }
    // As the logs of the last transaction have it.
    Uint256 told(const types::Address& to, std::string_view reason) const {
        Uint256 sum;
        for (const auto& log : world.last_receipt().logs)
            if (const auto event = types::read_event<events::Paid>(log))
                if (event->to == to && event->reason == reason) sum += event->amount;
        return sum;
    }
    std::uint64_t retention_end(std::uint64_t id) const {
        return world.task(id).since + market::in_ms(world.params.market.retention_s);
    }
    Result ask(std::uint64_t id, std::uint64_t tile = 0, const types::Address& who = kSubmitter) {
        return world.one(who, NativeKind::data_challenge, DataChallengePayload{id, 0, tile});
    }
    // A tile of the only slot.
    static DataAnswerPayload answer_of(std::uint64_t id, const History& history, std::uint64_t tile = 0) {
        const tensor::Tensor& slot = history.states.back()[0];
        const std::vector<Hash32> roots{tensor::tensor_root(slot)};
        return core::make_piece(id, roots, 0, tensor::tile_hashes(slot), tile,
                                tensor::tile_bytes(tensor::read_tile(slot, 0)));
    }
    Result answer(std::uint64_t id, const types::Address& who = kSolver) {
        return world.one(who, NativeKind::data_answer, answer_of(id, truth));
    }
};

TEST_F(Held, a_settled_task_keeps_its_share_of_the_reward) {
    const auto id = settled();
    const auto task = world.task(id);
    const Uint256 share = reward(id) / Uint256(5);
    ASSERT_FALSE(share.is_zero());
    EXPECT_EQ(task.held, share);
    EXPECT_EQ(paid(id, kSolver, "solver_reward"), reward(id) - share);
    EXPECT_EQ(task.escrow, task.deposit + share);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, nothing_is_held_where_the_chain_says_so) {
    world.params.market.held_percent = 0;
    const auto id = settled();
    EXPECT_TRUE(world.task(id).held.is_zero());
    EXPECT_EQ(paid(id, kSolver, "solver_reward"), reward(id));
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id})), "data.nothing_held");
    EXPECT_EQ(name(ask(id)), "data.nothing_held");
}

TEST_F(Held, accepting_pays_it_once) {
    const auto id = settled();
    const Uint256 share = world.task(id).held;
    const Uint256 before = balance_of(kSolver);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_accept, TaskIdPayload{id})), "task.not_its_submitter");
    const Uint256 lost = fee();
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id}));
    EXPECT_EQ(told(kSolver, "held_reward"), share);
    EXPECT_EQ(balance_of(kSolver), before - lost + share);
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id})), "data.nothing_held");
    EXPECT_EQ(name(ask(id)), "data.nothing_held");
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, the_end_of_the_retention_pays_it) {
    const auto id = settled();
    const Uint256 share = world.task(id).held;
    const Uint256 before = balance_of(kSolver);
    const Uint256 deposit = world.task(id).deposit;
    const Uint256 submitters = balance_of(kSubmitter);
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    world.skip_until(retention_end(id));
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    EXPECT_EQ(told(kSolver, "held_reward"), share);
    EXPECT_EQ(balance_of(kSolver), before + share);
    EXPECT_EQ(balance_of(kSubmitter), submitters + deposit);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, an_answer_earns_what_was_prepaid_whoever_sends_it) {
    const auto id = settled();
    const Uint256 share = world.task(id).held;
    Uint256 before = balance_of(kSubmitter);
    expect_ok(ask(id));
    EXPECT_EQ(balance_of(kSubmitter), before - fee() - price());
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit + share + price());
    before = balance_of(kSolver);
    expect_ok(answer(id));
    EXPECT_EQ(told(kSolver, "data_answer"), price());
    EXPECT_EQ(balance_of(kSolver), before - fee() + price());
    EXPECT_EQ(world.task(id).held, share) << "it goes on being held";
    // Another question, which somebody else answers: every number names a tile.
    expect_ok(ask(id, std::numeric_limits<std::uint64_t>::max()));
    before = balance_of(kSecond);
    expect_ok(answer(id, kSecond));
    EXPECT_EQ(balance_of(kSecond), before - fee() + price());
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id}));
    EXPECT_EQ(told(kSolver, "held_reward"), share);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, silence_gives_it_to_the_submitter) {
    const auto id = settled();
    const Uint256 share = world.task(id).held;
    expect_ok(ask(id));
    const std::uint64_t until = world.task(id).asked.at(0).until;
    EXPECT_EQ(until, world.market_ms() + market::in_ms(spec.windows.verify_s));
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    world.skip_until(until);
    // In the block in which it is due an answer is late.
    EXPECT_EQ(name(answer(id)), "task.deadline_passed");
    const Uint256 before = balance_of(kSubmitter);
    expect_ok(world.tick(id));
    EXPECT_EQ(told(kSubmitter, "held_forfeited"), share);
    EXPECT_EQ(told(kSubmitter, "data_prepaid"), price());
    EXPECT_EQ(balance_of(kSubmitter), before + share + price());
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
    EXPECT_EQ(name(answer(id)), "data.no_question");
    EXPECT_EQ(name(ask(id)), "data.nothing_held");
    const Uint256 solvers = balance_of(kSolver);
    world.skip_until(retention_end(id));
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    EXPECT_TRUE(told(kSolver, "held_reward").is_zero());
    EXPECT_LE(balance_of(kSolver), solvers);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, the_retention_does_not_end_under_a_question) {
    spec.windows.verify_s = 40;
    const auto id = settled();
    const Uint256 share = world.task(id).held;
    expect_ok(ask(id));
    ASSERT_GT(world.task(id).asked.at(0).until, retention_end(id));
    world.skip_until(retention_end(id));
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    expect_ok(answer(id));
    // And no other one begins after it, or they could go on for ever.
    EXPECT_EQ(name(ask(id)), "task.deadline_passed");
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    EXPECT_EQ(told(kSolver, "held_reward"), share);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Held, the_last_question_comes_before_the_end_of_the_retention) {
    const auto late = settled();
    world.skip_until(retention_end(late));
    EXPECT_EQ(name(ask(late)), "task.deadline_passed");
    EXPECT_EQ(world.market_ms(), retention_end(late)) << "with the first block in which a tick pays";
}

TEST_F(Held, in_the_last_block_of_the_retention_a_question_is_in_time) {
    const auto id = settled();
    world.skip_until(retention_end(id) - world.block_ms);
    expect_ok(ask(id));
    EXPECT_EQ(world.market_ms(), retention_end(id) - world.block_ms);
}

TEST_F(Held, one_question_at_a_time) {
    const auto id = settled();
    EXPECT_EQ(name(answer(id)), "data.no_question");
    expect_ok(ask(id));
    EXPECT_EQ(name(ask(id, 1)), "data.question_open");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id})), "data.question_open")
        << "else an answer on its way would be for nothing";
    expect_ok(answer(id));
    EXPECT_EQ(name(answer(id)), "data.no_question");
    expect_ok(ask(id, 1));
}

// Each costs who answers a fee, also when the asker's own answer was before it.
TEST_F(Held, a_task_is_asked_about_so_often) {
    world.params.market.retention_s = 100'000;
    const auto id = settled();
    for (std::uint32_t i = 0; i < params::kMaxQuestions; ++i) {
        ASSERT_EQ(world.task(id).questions, i);
        expect_ok(ask(id, i));
        expect_ok(answer(id, kSubmitter));
    }
    EXPECT_EQ(name(ask(id)), "data.too_many_questions");
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id}));
    EXPECT_TRUE(world.check_from_genesis());
}

// Of a share that rounds to nothing there is none.
TEST_F(Held, a_share_of_a_grain_is_one_and_less_is_none) {
    world.params.market.held_percent = 1;
    const auto id = settled();
    EXPECT_EQ(world.task(id).held, reward(id) / Uint256(100));
}

// However deep the trees are, an answer is a small transaction that anybody can pay for.
TEST_F(Held, the_largest_answer_fits) {
    const auto id = settled();
    DataAnswerPayload answer{id, core::kMaxPieceTiles, Bytes(tensor::kTileBytes, 7), {}, {}};
    answer.tile_path.resize(crypto::merkle_height(core::kMaxPieceTiles), Hash32{{1}});
    answer.slot_path.resize(crypto::merkle_height(tensor::kMaxSlots), Hash32{{2}});
    EXPECT_LT(types::encode_record(answer).size(), 6'144U);
    static_assert(tensor::kMaxTensorElements / tensor::kTileWords <= core::kMaxPieceTiles);
    // A state of one slot, with as many tiles.
    answer.slot_path.clear();
    const auto top = crypto::merkle_top_from_path(crypto::merkle_leaf(answer.tile), 5, answer.tiles, answer.tile_path);
    ASSERT_TRUE(top) << top.error().to_string();
    const std::vector<Hash32> roots{crypto::bytes_id(answer.tiles * tensor::kTileBytes, *top)};
    auto task = world.task(id);
    task.start_root = tensor::state_root(roots);
    world.state().store(types::key_of<types::Task>(id), task);
    expect_ok(ask(id, 5));
    expect_ok(world.one(kSolver, NativeKind::data_answer, answer));
    EXPECT_LT(world.last_receipt().gas_used, 400'000U);
}

// What only looks like the piece: each part of the proof by itself.
TEST_F(Held, every_part_of_an_answer_counts) {
    tensor::Tensor slot{tensor::DType::f32, tensor::Shape{{1, 1, 70, 70}}, std::vector<std::uint32_t>(4'900)};
    std::iota(slot.words.begin(), slot.words.end(), 1U);
    const auto hashes = tensor::tile_hashes(slot);
    ASSERT_GT(hashes.size(), 2U);
    const std::vector<Hash32> roots{Hash32{{9}}, tensor::tensor_root(slot), Hash32{{8}}};
    const Hash32 root = tensor::state_root(roots);
    const std::uint64_t tile = 3 * hashes.size() + 1;
    const auto good = core::make_piece(1, roots, 1, hashes, tile, tensor::tile_bytes(tensor::read_tile(slot, 1)));
    ASSERT_TRUE(core::check_piece(root, 3, 1, tile, good));
    const auto refused = [&](std::uint64_t count, std::uint32_t at, const DataAnswerPayload& bad) {
        const auto checked = core::check_piece(root, count, at, tile, bad);
        return checked ? std::string() : std::string(checked.error().name);
    };
    EXPECT_EQ(refused(3, 0, good), "data.bad_answer") << "another slot";
    EXPECT_EQ(refused(2, 1, good), "data.bad_answer") << "of another number of slots";
    EXPECT_EQ(refused(3, 3, good), "data.bad_answer") << "there is no such slot";
    for (const std::uint64_t tiles : {std::uint64_t{0}, std::uint64_t{1}, hashes.size() - 1, hashes.size() + 1,
                                      core::kMaxPieceTiles, core::kMaxPieceTiles + 1, ~std::uint64_t{0}}) {
        auto bad = good;
        bad.tiles = tiles;
        EXPECT_EQ(refused(3, 1, bad), "data.bad_answer") << tiles;
    }
    auto bad = good;
    bad.tile_path.pop_back();
    EXPECT_EQ(refused(3, 1, bad), "data.bad_answer");
    bad = good;
    bad.tile_path.emplace_back();
    EXPECT_EQ(refused(3, 1, bad), "data.bad_answer");
    bad = good;
    std::swap(bad.tile_path.front(), bad.tile_path.back());
    EXPECT_EQ(refused(3, 1, bad), "data.bad_answer");
    bad = good;
    bad.slot_path.front().data[0] ^= 1;
    EXPECT_EQ(refused(3, 1, bad), "data.bad_answer");
}

TEST_F(Held, questions_have_their_time_and_place) {
    const auto id = reach(ClaimState::challenge, truth);
    EXPECT_EQ(name(ask(id)), "task.wrong_state");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{id})), "task.wrong_state");
    tick_when_due(id);
    EXPECT_EQ(name(ask(id, 0, kSolver)), "task.not_its_submitter");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::data_challenge, DataChallengePayload{id, 1, 0})),
              "data.no_such_slot");
    EXPECT_EQ(name(ask(id + 1)), "task.unknown");
    EXPECT_EQ(name(ask(0)), "task.unknown");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_accept, TaskIdPayload{0})), "task.unknown");
    EXPECT_EQ(name(answer(0)), "task.unknown");
    world.params.market.dispute_cost = Uint256(1) << 80U;
    EXPECT_EQ(name(ask(id)), "account.insufficient_balance");
}

TEST_F(Held, only_the_asked_piece_of_the_last_state_is_an_answer) {
    const auto id = settled();
    expect_ok(ask(id));
    const auto refused = [&](const DataAnswerPayload& wrong_one) {
        return name(world.one(kSolver, NativeKind::data_answer, wrong_one));
    };
    EXPECT_EQ(refused(answer_of(id, wrong)), "data.bad_answer");
    auto bad = answer_of(id, truth);
    bad.tile.pop_back();
    EXPECT_EQ(refused(bad), "data.bad_answer");
    bad = answer_of(id, truth);
    bad.tile[0] ^= 1;
    EXPECT_EQ(refused(bad), "data.bad_answer");
    // Another number of tiles would make another tile the asked one.
    bad = answer_of(id, truth);
    bad.tiles = 2;
    bad.tile_path = {Hash32()};
    EXPECT_EQ(refused(bad), "data.bad_answer");
    bad = answer_of(id, truth);
    bad.tiles = 0;
    EXPECT_EQ(refused(bad), "data.bad_answer");
    bad.tiles = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(refused(bad), "data.bad_answer");
    bad = answer_of(id, truth);
    bad.slot_path = {Hash32()};
    EXPECT_EQ(refused(bad), "data.bad_answer");
    expect_ok(answer(id));
}

TEST_F(Held, the_calls_to_reserved_addresses_do_the_same) {
    const auto id = settled();
    const auto call = [&](const types::Address& who, NativeKind kind, const auto& payload) {
        world.begin();
        const auto result = world.call(who, kind, payload);
        EXPECT_TRUE(world.finish());
        return result;
    };
    expect_ok(call(kSubmitter, NativeKind::data_challenge, DataChallengePayload{id, 0, 5}));
    ASSERT_EQ(world.task(id).asked.size(), 1U);
    EXPECT_EQ(world.task(id).asked[0].tile, 5U);
    expect_ok(call(kSecond, NativeKind::data_answer, answer_of(id, truth, 5)));
    expect_ok(call(kSubmitter, NativeKind::task_accept, TaskIdPayload{id}));
    EXPECT_TRUE(world.task(id).held.is_zero());
}

}  // namespace
}  // namespace quern::chain::exec::test
