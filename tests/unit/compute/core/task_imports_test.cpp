// Slots that a first state has from earlier ones: what opens them, and what is refused.
#include "compute/core/task_imports.h"

#include <gtest/gtest.h>

#include "crypto/merkle.h"

namespace quern::compute::core {
namespace {

using chain::types::ImportedSlots;
using chain::types::TaskImport;
using chain::types::TaskSubmitPayload;

constexpr std::size_t kSlots = 13;

std::vector<Hash32> roots(const std::string& name, std::size_t count) {
    std::vector<Hash32> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(crypto::merkle_leaf(as_bytes(name + std::to_string(i))));
    return made;
}

Hash32 state_of(const std::vector<Hash32>& slots) { return crypto::list_id_of(crypto::MerkleTag::state, slots); }

// S_0 has slots 2 to 6 and 9 of task 7's last state, and slot 12 of task 8's.
class Imports : public ::testing::Test {
protected:
    Imports() {
        seven_ = {7, 0, roots("seven", 11), {{4, 2, 5}, {0, 9, 1}}};
        eight_ = {8, 0, roots("eight", 1), {{0, 12, 1}}};
        for (const ImportSource* source : {&seven_, &eight_})
            for (const ImportedSlots& range : source->slots)
                for (std::uint32_t i = 0; i < range.count; ++i)
                    init_[range.here + i] = source->slot_roots[range.there + i];
        spec_.init_root = state_of(init_);
        set_imports(spec_, std::vector{seven_, eight_}, init_);
    }
    [[nodiscard]] std::string error() const {
        const auto states = open_imports(spec_, kSlots);
        return states ? "none" : std::string(states.error().name);
    }
    // Of imports that were changed, openings left as they are.
    std::string refused(const std::function<void(std::vector<TaskImport>&)>& change) const {
        TaskSubmitPayload spec = spec_;
        change(spec.imports.list);
        const auto states = open_imports(spec, kSlots);
        return states ? "none" : std::string(states.error().name);
    }

    ImportSource seven_;
    ImportSource eight_;
    std::vector<Hash32> init_ = roots("fresh", kSlots);
    TaskSubmitPayload spec_;
};

TEST_F(Imports, are_opened_in_the_first_state_and_lead_to_the_earlier_ones) {
    const auto states = open_imports(spec_, kSlots);
    ASSERT_TRUE(states) << states.error().to_string();
    EXPECT_EQ(*states, (std::vector{state_of(seven_.slot_roots), state_of(eight_.slot_roots)}));
    EXPECT_EQ(spec_.imports.roots.size(), 7U) << "once for both states";
    EXPECT_EQ(spec_.imports.list, (std::vector<TaskImport>{{7, 0, 11, seven_.slots}, {8, 0, 1, eight_.slots}}));

    const TaskSubmitPayload none;
    EXPECT_TRUE(open_imports(none, kSlots)->empty());
    set_imports(spec_, {}, init_);
    EXPECT_TRUE(spec_.imports.list.empty() && spec_.imports.roots.empty() && spec_.imports.siblings.empty());
}

TEST_F(Imports, of_other_slots_are_no_imports) {
    for (Hash32& root : spec_.imports.roots) {
        root.data[5] ^= 1;
        EXPECT_EQ(error(), "task.import_mismatch");
        root.data[5] ^= 1;
    }
    // A sibling in S_0 leads elsewhere. One in an earlier state makes another state of it, which no record names, or
    // two states where there are two ranges.
    for (Hash32& sibling : spec_.imports.siblings) {
        sibling.data[5] ^= 1;
        const auto states = open_imports(spec_, kSlots);
        EXPECT_TRUE(!states || (*states)[0] != state_of(seven_.slot_roots) ||
                    (*states)[1] != state_of(eight_.slot_roots));
        EXPECT_TRUE(states || states.error().name == "task.import_mismatch");
        sibling.data[5] ^= 1;
    }
    spec_.init_root.data[0] ^= 1;
    EXPECT_EQ(error(), "task.import_mismatch");
    spec_.init_root.data[0] ^= 1;
    EXPECT_EQ(refused([](auto& list) { list[0].slots[1].there = 2; }), "task.import_mismatch");
    EXPECT_EQ(open_imports(spec_, kSlots + 3).error().name, "task.import_mismatch") << "the id binds the number";
    EXPECT_EQ(error(), "none");
}

TEST_F(Imports, that_are_not_well_formed_are_refused) {
    const std::string_view bad = "task.bad_imports";
    EXPECT_EQ(refused([](auto& list) { list.clear(); }), bad);
    EXPECT_EQ(refused([](auto& list) { std::swap(list[0], list[1]); }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].task = 7; }), bad) << "twice the same";
    EXPECT_EQ(refused([](auto& list) { list[1].task = 7, list[1].seat = 1; }), "none");
    EXPECT_EQ(refused([](auto& list) { list[1].slots.clear(); }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].count = 0; }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].there = 1; }), bad) << "the state has one slot";
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].there = 0xffffffff; }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].here = kSlots; }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].here = 0xffffffff; }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].here = 4; }), bad) << "a slot has one origin";
    EXPECT_EQ(refused([](auto& list) { std::swap(list[0].slots[0], list[0].slots[1]); }), bad);
    EXPECT_EQ(refused([](auto& list) { list[1].slots[0].count = 0xffffffff, list[1].slot_count = 0xffffffff; }), bad);
    EXPECT_EQ(refused([](auto& list) {
                  for (std::uint64_t task = 9; list.size() <= kMaxImports; ++task)
                      list.push_back({task, 0, 1, {{0, static_cast<std::uint32_t>(10 * task), 1}}});
              }),
              bad);
    EXPECT_EQ(refused([](auto& list) {
                  list[1].slot_count = 1000;
                  for (std::uint32_t i = 0; i < kMaxImportRanges; ++i) list[1].slots.push_back({i, 100 + 2 * i, 1});
              }),
              bad);

    TaskSubmitPayload spec = spec_;
    spec.imports.roots.push_back({});
    EXPECT_EQ(open_imports(spec, kSlots).error().name, bad);
    spec = spec_;
    spec.imports.roots.pop_back();
    EXPECT_EQ(open_imports(spec, kSlots).error().name, bad);
    spec = spec_;
    spec.imports.siblings.push_back({});
    EXPECT_EQ(open_imports(spec, kSlots).error().name, bad);
    spec = spec_;
    spec.imports.list.clear();
    EXPECT_EQ(open_imports(spec, kSlots).error().name, bad) << "nothing to open";
}

}  // namespace
}  // namespace quern::compute::core
