// Tasks whose first state has slots of settled tasks' final states.
#include "compute/core/task_imports.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Stacked : public Lifecycle {
protected:
    // Settles a task by `truth`; the next one begins where it ended, if it likes.
    std::uint64_t settle() {
        const auto id = reach(ClaimState::challenge, truth);
        tick_when_due(id);
        EXPECT_EQ(world.task(id).state, TaskState::settled);
        return id;
    }
    // Of a task that begins with the state that `earlier` ended with.
    [[nodiscard]] types::TaskSubmitPayload spec_after(std::uint64_t earlier) const {
        auto next = spec;
        const std::vector<Hash32> slots = tensor::slot_roots(truth.states.back());
        next.init_root = truth.roots.back();
        core::set_imports(next, std::vector{core::ImportSource{earlier, 0, slots, {{0, 0, 1}}}}, slots);
        return next;
    }
    std::string refused(const types::TaskSubmitPayload& what) {
        return name(world.one(kSubmitter, NativeKind::task_submit, what));
    }
};

TEST_F(Stacked, a_task_goes_on_from_what_another_has_proved) {
    const auto first = settle();
    const auto ended = world.proof(first).value();
    EXPECT_TRUE(ended.imports.empty());

    spec = spec_after(first);
    truth = compute_history_from(truth.states.back(), tiny().programs(kSteps));
    const auto second = settle();
    const auto kept = world.task(second).spec;
    EXPECT_EQ(kept.imports.list, spec.imports.list);
    EXPECT_TRUE(kept.imports.roots.empty() && kept.imports.siblings.empty()) << "what they prove is decided";
    const auto proof = world.proof(second).value();
    EXPECT_EQ(proof.init_root, ended.final_root);
    EXPECT_EQ(proof.imports, (std::vector<types::TaskImport>{{first, 0, 1, {{0, 0, 1}}}}));
    EXPECT_EQ(proof.submission, crypto::merkle_leaf(types::encode_record(kept)));

    // The record outlives the task, and a task outlives the one that it began with.
    world.skip_until(world.task(first).since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(first));
    EXPECT_FALSE(world.exists(first));
    spec = spec_after(second);
    submit();
    spec = spec_after(first);
    EXPECT_EQ(refused(spec), "task.import_mismatch") << "a state of the second, said to be the first's";
}

TEST_F(Stacked, only_what_was_settled_can_be_imported) {
    const auto id = reach(ClaimState::challenge, truth);
    EXPECT_EQ(refused(spec_after(id)), "task.unknown_proof") << "proved, and open to challenges";
    EXPECT_EQ(refused(spec_after(id + 1)), "task.unknown_proof") << "the task itself";
    tick_when_due(id);
    auto other_seat = spec_after(id);
    other_seat.imports.list = {{id, 1, 1, {{0, 0, 1}}}};
    EXPECT_EQ(refused(other_seat), "task.unknown_proof");
    EXPECT_EQ(refused(spec_after(id)), "ok");
}

TEST_F(Stacked, a_state_that_was_not_proved_is_not_imported) {
    const auto id = settle();
    const auto good = spec_after(id);
    auto lie = good;
    lie.init_root = spec.init_root;  // some state, with the right openings
    EXPECT_EQ(refused(lie), "task.import_mismatch");
    lie = good;
    lie.imports.roots[0].data[0] ^= 1;
    EXPECT_EQ(refused(lie), "task.import_mismatch");
    // A state of the submitter's own, opened well, that no record names.
    const std::vector<Hash32> slots = tensor::slot_roots(wrong.states.back());
    lie = good;
    lie.init_root = wrong.roots.back();
    core::set_imports(lie, std::vector{core::ImportSource{id, 0, slots, {{0, 0, 1}}}}, slots);
    EXPECT_EQ(refused(lie), "task.import_mismatch");
    lie = good;
    lie.imports.roots.clear();
    EXPECT_EQ(refused(lie), "task.bad_imports");
    EXPECT_EQ(refused(good), "ok");
}

}  // namespace
}  // namespace quern::chain::exec::test
